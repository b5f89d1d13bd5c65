use super::world::{NOW_NS, World};
use crate::facts::NoFacts;
use crate::once::{once_at, once_text_at};

fn world() -> World {
    let mut world = World::busy();
    world.session("a1", "resnet50", 200, 4_200_000, 60);
    world.facts.lost = 2;
    world
}

#[test]
fn the_document_has_names_units_and_nulls() {
    let world = world();
    let document = once_at(&world.view(), &world.facts, &world.facts, 2, NOW_NS);
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).expect("JSON"));
}

#[test]
fn the_text_is_one_screen_without_escapes() {
    let world = world();
    let text = once_text_at(&world.view(), &world.facts, &world.facts, 5, NOW_NS);
    assert!(!text.contains('\u{1b}'));
    insta::assert_snapshot!(text);
}

#[test]
fn an_empty_memory_gives_a_document() {
    let world = World::empty();
    let document = once_at(&world.view(), &NoFacts, &NoFacts, usize::MAX, NOW_NS);
    assert_eq!(document["schema"], "ortscope.top/1");
    assert!(document["machine"]["cpu_percent"].is_null() && document["processes"] == serde_json::json!([]));
    assert!(once_text_at(&world.view(), &NoFacts, &NoFacts, 5, NOW_NS).starts_with("cpu - %"));
}
