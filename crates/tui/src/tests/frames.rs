use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};

use super::world::{NOW_NS, SECOND_NS, World, frame, key, keys, styles, text};
use ortscope_core::schema::SampleEndRow;

use crate::app::App;
use crate::facts::NoFacts;
use crate::glyphs::Glyphs;
use crate::options::TopOptions;

fn options(world: &World) -> TopOptions<'_> {
    TopOptions { figures: &world.facts, ..TopOptions::default() }
}

fn app<'a>(world: &'a World, options: &TopOptions<'a>) -> App<'a> {
    let mut app = App::new(world.view(), &world.facts, options);
    assert!(app.refresh(NOW_NS));
    app
}

/// The frame after these keys.
fn after(world: &World, typed: &[ratatui::crossterm::event::KeyEvent], width: u16, height: u16) -> String {
    let mut app = app(world, &options(world));
    frame(&mut app, width, height, NOW_NS);
    for event in typed {
        app.key(*event);
        frame(&mut app, width, height, NOW_NS);
    }
    text(&frame(&mut app, width, height, NOW_NS))
}

#[test]
fn eighty_by_twenty_four() {
    insta::assert_snapshot!(after(&World::busy(), &[], 80, 24));
}

#[test]
fn hundred_twenty_by_forty() {
    let mut world = World::busy();
    world.session("a1", "resnet50", 200, 4_200_000, 60);
    world.session("b2", "bert-base", 5, 31_000_000, 60);
    let down = [key(KeyCode::Down)];
    insta::assert_snapshot!(after(&world, &down, 120, 40));
}

#[test]
fn a_session_panel_at_eighty() {
    let mut world = World::busy();
    world.session("a1", "resnet50", 200, 4_200_000, 60);
    world.session("b2", "bert\u{1b}[31m-base-with-a-name-that-is-long", 20, 31_000_000, 20);
    insta::assert_snapshot!(after(&world, &[], 80, 24));
}

#[test]
fn too_small() {
    insta::assert_snapshot!(after(&World::busy(), &[], 30, 8));
}

#[test]
fn the_smallest_working_size() {
    insta::assert_snapshot!(after(&World::busy(), &[], 40, 10));
}

#[test]
fn without_color_only_bold_and_reversed_are_used() {
    let mut world = World::busy();
    world.facts.lost = 12;
    let options = TopOptions { color: false, ..options(&world) };
    let mut app = app(&world, &options);
    app.key(key(KeyCode::Enter));
    let buffer = frame(&mut app, 80, 24, NOW_NS);
    for cell in &buffer.content {
        assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        assert!((Modifier::BOLD | Modifier::REVERSED).contains(cell.modifier));
    }
    insta::assert_snapshot!(format!("{}{}", text(&buffer), styles(&buffer)));
}

#[test]
fn with_color_there_is_some() {
    let world = World::busy();
    let buffer = frame(&mut app(&world, &options(&world)), 80, 24, NOW_NS);
    assert!(buffer.content.iter().any(|cell| cell.fg == Color::Red));
}

#[test]
fn nothing_yet() {
    let world = World::empty();
    let mut app =
        App::new(world.view(), &NoFacts, &TopOptions { figures: &NoFacts, ..TopOptions::default() });
    assert!(!app.refresh(NOW_NS));
    insta::assert_snapshot!(text(&frame(&mut app, 80, 24, NOW_NS)));
}

#[test]
fn five_thousand_processes() {
    let mut world = World::empty();
    world.system();
    world.many(5_000);
    let end = [key(KeyCode::End), key(KeyCode::PageUp)];
    insta::assert_snapshot!(after(&world, &end, 80, 24));
    let tree = keys("st");
    insta::assert_snapshot!("five_thousand_as_a_tree", after(&world, &tree, 80, 24));
}

#[test]
fn a_paused_view_stays_and_says_its_age() {
    let mut world = World::busy();
    let facts = World::busy().facts;
    let view = world.view();
    let options = TopOptions::default();
    let mut app = App::new(view, &facts, &options);
    app.refresh(NOW_NS);
    frame(&mut app, 80, 24, NOW_NS);
    app.key(key(KeyCode::Char('p')));
    world.process(9_999, 1, "newcomer", 400.0, 1, 0);
    assert!(app.refresh(NOW_NS + 7 * SECOND_NS));
    let paused = text(&frame(&mut app, 80, 24, NOW_NS + 7 * SECOND_NS));
    insta::assert_snapshot!(paused);
    // The same second again: nothing to draw.
    assert!(!app.refresh(NOW_NS + 7 * SECOND_NS + SECOND_NS / 4));
    app.key(key(KeyCode::Char(' ')));
    assert!(app.refresh(NOW_NS + 8 * SECOND_NS));
    assert!(text(&frame(&mut app, 80, 24, NOW_NS + 8 * SECOND_NS)).contains("(9999)"));
}

#[test]
fn unchanged_data_is_not_redrawn_and_silence_is_shown() {
    let world = World::busy();
    let mut app = app(&world, &options(&world));
    frame(&mut app, 80, 24, NOW_NS);
    assert!(!app.refresh(NOW_NS + 250_000_000));
    assert!(app.refresh(NOW_NS + 9 * SECOND_NS));
    let silent = text(&frame(&mut app, 80, 24, NOW_NS + 9 * SECOND_NS));
    assert!(silent.lines().next().is_some_and(|line| line.ends_with("no data for 9 s")), "{silent}");
    assert!(!app.refresh(NOW_NS + 9 * SECOND_NS));
}

#[test]
fn a_filtered_tree_keeps_the_ancestors_of_matches() {
    let mut typed = keys("t/worker");
    typed.push(key(KeyCode::Enter));
    insta::assert_snapshot!(after(&World::busy(), &typed, 80, 24));
}

#[test]
fn a_filter_without_matches_is_shown_while_typing() {
    let shown = after(&World::busy(), &keys("/zzz"), 80, 24);
    assert!(shown.contains("no process matches \"zzz\"") && shown.contains("/zzz"), "{shown}");
}

#[test]
fn help_and_unavailable_values() {
    let mut world = World::busy();
    insta::assert_snapshot!("help", after(&world, &keys("?"), 80, 24));
    world.facts.lost = 3;
    insta::assert_snapshot!("missing", after(&world, &keys("u"), 80, 24));
    // A small page scrolls, and its end is the end.
    let mut typed = keys("?");
    typed.extend([key(KeyCode::End), key(KeyCode::Down)]);
    assert!(after(&world, &typed, 40, 10).contains("needed"), "{}", after(&world, &typed, 40, 10));
}

#[test]
fn rates_of_a_fast_source_are_one_second_means() {
    let mut world = World::empty();
    world.bursts(5, 50);
    let shown = after(&world, &keys("?"), 80, 24);
    assert!(shown.contains("Rates are the mean of the last second"), "{shown}");
    let table = after(&world, &[], 80, 24);
    assert!(table.contains("burst-5") && table.contains("  50.0 "), "{table}");
}

#[test]
fn who_ended_or_fell_silent_leaves() {
    let mut world = World::busy();
    let end = |pid: u64| SampleEndRow {
        timestamp_ns: NOW_NS - SECOND_NS / 10,
        table: "process_samples".into(),
        key: format!("[{pid},7]").into(),
    };
    world.put(&[end(4300)]);
    let shown = after(&world, &[], 80, 24);
    assert!(!shown.contains("4300") && shown.contains("4301") && shown.contains("7 processes"), "{shown}");
    world.late(1, 20);
    let shown = after(&world, &[], 80, 24);
    assert!(shown.contains("1 process ") && shown.contains("systemd"), "{shown}");
}

#[test]
fn ascii_screens_get_ascii() {
    let mut world = World::busy();
    world.facts = super::world::Facts::default();
    world.session("a1", "resnet50", 200, 4_200_000, 60);
    let options = TopOptions { glyphs: Glyphs::Ascii, ..options(&world) };
    let mut app = app(&world, &options);
    for event in keys("t?") {
        app.key(event);
    }
    app.key(key(KeyCode::Esc));
    app.key(key(KeyCode::Enter));
    let shown = text(&frame(&mut app, 100, 40, NOW_NS));
    // µ is the only letter that is not ASCII, in latencies below a millisecond.
    assert!(shown.is_ascii(), "{shown}");
}

#[test]
fn every_size_can_be_drawn() {
    let mut world = World::busy();
    world.facts.lost = 1;
    world.session("a1", "resnet50", 20, 4_200_000, 60);
    let options = options(&world);
    let mut app = app(&world, &options);
    app.key(key(KeyCode::Enter));
    for overlay in ["", "?", "u"] {
        for event in keys(overlay) {
            app.key(event);
        }
        for (width, height) in [
            (1, 1),
            (2, 40),
            (39, 10),
            (40, 10),
            (41, 11),
            (60, 15),
            (80, 24),
            (300, 100),
            (10_000, 3),
            (40, 700),
        ] {
            frame(&mut app, width, height, NOW_NS);
        }
    }
}
