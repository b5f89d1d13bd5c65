//! Cached views of whole recordings: a recording with ten million operators is read once and is then shown immediately.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::tiles::{MAX_RECTANGLES, Tiles, Wanted};
use crate::data::Source;
use crate::error::ApiError;

/// Maximum number of cached views.
const MAX_KEPT: usize = 4;
/// Maximum number of rectangles of a cached view: finer than a screen, so that the first zooms need no reading.
const MAX_KEPT_RECTANGLES: usize = 300_000;
const PIXELS: u64 = 16_384;

type Made = Arc<OnceLock<Result<Arc<Tiles>, ApiError>>>;

#[derive(Debug, Default)]
pub struct Overviews(Mutex<Vec<(String, u64, Made)>>);

impl Overviews {
    pub fn tiles(&self, source: &Source, wanted: &Wanted) -> Result<Tiles, ApiError> {
        let length = source.last_ns.saturating_sub(source.first_ns).max(1);
        let kept_bin = (length / PIXELS).max(1);
        let is_plain = wanted.filter.is_none() && wanted.session.is_none() && !source.growing();
        if is_plain && wanted.bin_ns() >= kept_bin {
            let overview = self.overview(source, kept_bin)?;
            if wanted.bin_ns() >= overview.bin_ns {
                return Ok(overview.part(wanted));
            }
        }
        Tiles::read(source, wanted, wanted.bin_ns(), MAX_RECTANGLES)
    }

    fn overview(&self, source: &Source, bin_ns: u64) -> Result<Arc<Tiles>, ApiError> {
        let made = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_it = |(id, generation, _): &(String, u64, Made)| {
                *id == source.id && *generation == source.generation
            };
            match kept.iter().position(is_it) {
                Some(index) => {
                    let entry = kept.remove(index);
                    kept.push(entry);
                }
                None => {
                    if kept.len() >= MAX_KEPT {
                        kept.remove(0);
                    }
                    kept.push((source.id.clone(), source.generation, Made::default()));
                }
            }
            kept.last().map(|(_, _, made)| Arc::clone(made)).unwrap_or_default()
        };
        made.get_or_init(|| {
            let all = Wanted {
                from_ns: source.first_ns,
                to_ns: source.last_ns.saturating_add(1),
                width: PIXELS as usize,
                filter: None,
                session: None,
            };
            Tiles::read(source, &all, bin_ns, MAX_KEPT_RECTANGLES).map(Arc::new)
        })
        .clone()
    }
}
