"""Runs statements of docs/FLEET.md in an engine over a directory of recordings: one JSON document with every answer.

    check_fleet.py duckdb|clickhouse STATEMENTS.sql

Used by the tests of exports. Answers of statements that give no rows (views) are null.
"""

import json
import re
import sys


def statements(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"--[^\n]*", "", file.read())
    return [statement.strip() for statement in text.split(";") if statement.strip()]


def duckdb(statement, state={}):
    import duckdb

    connection = state.setdefault("connection", duckdb.connect())
    answer = connection.execute(statement)
    if answer.description is None or statement.lower().startswith("create"):
        return None
    return {"columns": [column[0] for column in answer.description], "rows": answer.fetchall()}


def clickhouse(statement):
    import chdb

    answer = json.loads(chdb.query(statement, "JSONCompact").bytes())
    return {"columns": [column["name"] for column in answer["meta"]], "rows": answer["data"]}


def main(engine, path):
    run = {"duckdb": duckdb, "clickhouse": clickhouse}[engine]
    answers = []
    for statement in statements(path):
        try:
            answers.append({"statement": statement, "answer": run(statement)})
        except Exception as error:  # noqa: BLE001 - whatever the engine says is what the test shows
            answers.append({"statement": statement, "error": str(error)})
    print(json.dumps(answers, default=str))


main(*sys.argv[1:])
