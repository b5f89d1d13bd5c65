/** What a browser without a session sees. */

import { Failure, send } from "../api/client";
import { command, fill, h, setText } from "./dom";

export function mountLogin(root: HTMLElement): void {
  const problem = h("p", { class: "filter-problem", role: "alert" });
  const token = h("input", {
    type: "password",
    class: "input",
    id: "token",
    autocomplete: "off",
    required: true,
    "aria-label": "Token",
  });
  const form = h(
    "form",
    { class: "login-form" },
    h("label", { for: "token" }, "Token"),
    token,
    h("button", { type: "submit", class: "button primary" }, "Log in"),
    problem,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send("POST", "/login", { token: token.value.trim() }).then(
      () => location.reload(),
      (error: unknown) => {
        setText(
          problem,
          error instanceof Failure
            ? [error.message, error.hint].filter(Boolean).join(" ")
            : "The server does not answer.",
        );
        token.select();
      },
    );
  });
  fill(
    root,
    h(
      "main",
      { class: "login" },
      h("h1", {}, "ortscope"),
      h(
        "p",
        {},
        "Open the link that ortscope serve printed. It works once; restart the server for a new one. Or log in with a token:",
      ),
      form,
      h("p", { class: "note" }, "Create a token on the server:"),
      command("ortscope token create me --role viewer"),
    ),
  );
  token.focus();
}

export function mountFailure(root: HTMLElement, title: string, hint: string | null): void {
  fill(
    root,
    h(
      "main",
      { class: "login" },
      h("h1", {}, "ortscope"),
      h("p", {}, title),
      hint ? h("p", { class: "note" }, hint) : null,
      h("button", { type: "button", class: "button primary", onclick: () => location.reload() }, "Try again"),
    ),
  );
}
