//! The list of recordings, and finding, naming and removing them.

use std::time::Duration;

use ortscope_store::{NewRecording, Recording, Retention, Store, StoreError, StoreErrorKind};

use crate::support::*;

/// Recordings with these names, oldest first; their ids.
fn named(store: &Store, names: &[&str]) -> Vec<String> {
    let make = |name: &&str| {
        let new = NewRecording { name: Some((*name).to_owned()), ..new_recording("a model") };
        let writer = store.begin(new).expect("begun");
        writer.append(&inferences(0..100)).expect("kept");
        writer.finish("finished").expect("finished").id
    };
    names.iter().map(make).collect()
}

#[test]
fn the_list_is_right_after_any_damage_to_the_catalogue() {
    let (_directory, store) = store();
    let ids = named(&store, &["one", "two", "three"]);
    let check = |store: &Store| {
        let list = store.list().expect("a list");
        let newest_first: Vec<&str> = list.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(newest_first, ids.iter().rev().map(String::as_str).collect::<Vec<_>>());
        assert!(list.iter().all(|entry| entry.finished && entry.rows == Some(102) && entry.bytes > 0));
        assert_eq!(list[0].name.as_deref(), Some("three"));
        assert!(list[0].duration_ns.is_some() && list[0].directory.is_dir());
    };
    check(&store);
    let catalogue = store.root().join("catalogue.sqlite");
    assert!(catalogue.exists());
    fs_err::remove_file(&catalogue).expect("removed");
    check(&store);
    for bytes in [&b"not a database"[..], &[0; 5000], b"SQLite format 3\0 and then nothing that it should be"]
    {
        fs_err::write(&catalogue, bytes).expect("written");
        check(&store);
        check(&store);
    }
    for bit in (0..4096 * 8).step_by(331) {
        flip_bit(&catalogue, bit);
        check(&store);
    }
}

#[test]
fn the_catalogue_follows_external_changes() {
    let (_directory, store) = store();
    let ids = named(&store, &["one", "two"]);
    assert_eq!(store.list().expect("a list").len(), 2);
    fs_err::remove_dir_all(store.root().join(&ids[0])).expect("removed");
    fs_err::rename(store.root().join(&ids[1]), store.root().join("copied-here")).expect("renamed");
    let list = store.list().expect("a list");
    assert_eq!(list.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["copied-here"]);
    Recording::open(&store.resolve("copied-here").expect("found")).expect("opens");
}

#[test]
fn recordings_are_found_in_every_way() {
    let (_directory, store) = store();
    let ids = named(&store, &["baseline", "candidate"]);
    let path = |id: &str| store.root().join(id);
    assert_eq!(store.resolve(&ids[0]).expect("by id"), path(&ids[0]));
    assert_eq!(store.resolve("baseline").expect("by name"), path(&ids[0]));
    assert_eq!(store.resolve("last").expect("the newest"), path(&ids[1]));
    let last_part = ids[1].rsplit('-').next().expect("a part");
    assert_eq!(store.resolve(last_part).expect("by its last part"), path(&ids[1]));
    assert_eq!(store.resolve(&last_part[..6]).expect("by the start of it"), path(&ids[1]));
    assert_eq!(store.resolve(&ids[1][..17]).expect("by its start"), path(&ids[1]));
    assert_eq!(store.resolve(&path(&ids[0]).to_string_lossy()).expect("by path"), path(&ids[0]));

    let error = store.resolve(&ids[0][..10]).expect_err("the day has two");
    assert!(matches!(error, StoreError::Ambiguous { .. }) && error.kind() == StoreErrorKind::Usage);
    assert!(error.to_string().contains(&ids[0]) && error.to_string().contains(&ids[1]), "{error}");

    let error = store.resolve("basline").expect_err("nearly");
    assert_eq!(error.kind(), StoreErrorKind::Usage);
    assert_eq!(error.hint().as_deref(), Some("did you mean 'baseline'?"));
    for nothing in ["", "nothing-like-it", "./nowhere", "..\\x"] {
        assert_eq!(store.resolve(nothing).expect_err("nothing").kind(), StoreErrorKind::Usage, "{nothing}");
    }
    let empty = tempfile::tempdir().expect("a directory");
    Store::open(empty.path()).resolve("last").expect_err("there is none");
}

#[test]
fn tags_and_names_are_checked_and_kept() {
    let (_directory, store) = store();
    let ids = named(&store, &["one"]);
    let tags = |add: &[&str], remove: &[&str]| {
        let owned = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        store.tag(&ids[0], &owned(add), &owned(remove))
    };
    assert_eq!(tags(&["b", "a", "b"], &[]).expect("tagged"), ["a", "b"]);
    assert_eq!(tags(&["c"], &["a", "not there"]).expect("tagged"), ["b", "c"]);
    assert_eq!(store.list().expect("a list")[0].tags, ["b", "c"]);
    for wrong in ["", " ", "last", "a/b", "a,b", "-x", "new\nline", &"x".repeat(101)] {
        assert_eq!(tags(&[wrong], &[]).expect_err("no tag").kind(), StoreErrorKind::Usage, "{wrong}");
    }
    store.rename(&ids[0], "another").expect("renamed");
    assert_eq!(store.list().expect("a list")[0].name.as_deref(), Some("another"));
    store.rename("another", "").expect("no name");
    assert_eq!(store.list().expect("a list")[0].name, None);
    let bad_name = NewRecording { name: Some("last".into()), ..new_recording("x") };
    assert_eq!(store.begin(bad_name).expect_err("means something else").kind(), StoreErrorKind::Usage);
}

#[test]
fn old_and_large_recordings_go_and_tagged_ones_stay() {
    let (_directory, store) = store();
    let ids = named(&store, &["one", "two", "three", "four"]);
    store.tag("one", &["golden".into()], &[]).expect("tagged");
    let bytes = store.list().expect("a list")[0].bytes;
    let names =
        |pruned: &[ortscope_store::Pruned]| pruned.iter().map(|one| one.id.clone()).collect::<Vec<_>>();

    let nothing = Retention::default();
    assert!(store.prune(&nothing, false).expect("pruned").is_empty());
    let room_for_two = Retention { max_total_bytes: Some(bytes * 5 / 2), ..Retention::default() };
    assert!(store.prune(&room_for_two, true).expect("a list").is_empty(), "what has a name stays");
    for id in &ids {
        store.rename(id, "").expect("no name");
    }
    let would = store.prune(&room_for_two, true).expect("a list");
    assert_eq!(names(&would), [ids[1].clone(), ids[2].clone()]);
    assert_eq!(store.list().expect("a list").len(), 4, "a dry run removes nothing");
    assert_eq!(store.prune(&room_for_two, false).expect("pruned"), would);
    assert_eq!(store.list().expect("a list").len(), 2);

    let being_written = begin(&store);
    let of_no_age = Retention { max_age: Some(Duration::ZERO), max_total_bytes: None, keep_tagged: false };
    let gone = store.prune(&of_no_age, false).expect("pruned");
    assert_eq!(names(&gone), [ids[0].clone(), ids[3].clone()], "tagged ones too, unless kept");
    let left = store.list().expect("a list");
    assert!(left.len() == 1 && left[0].being_written, "recordings being written stay");
    let id = being_written.finish("finished").expect("finished").id;
    store.remove(&id).expect("removed");
    assert!(store.list().expect("a list").is_empty());
    assert_eq!(store.remove(&id).expect_err("gone").kind(), StoreErrorKind::Usage);
}

#[test]
fn an_interrupted_removal_is_finished_later() {
    let (_directory, store) = store();
    let ids = named(&store, &["one"]);
    let half = store.root().join(format!(".removed-{}", ids[0]));
    fs_err::rename(store.root().join(&ids[0]), &half).expect("renamed");
    assert!(store.list().expect("a list").is_empty());
    store.prune(&Retention::default(), false).expect("pruned");
    assert!(!half.exists());
}
