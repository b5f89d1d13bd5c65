//! Cached views of whole recordings: a recording with ten million operators is read once and is then shown immediately.

use super::tiles::{MAX_RECTANGLES, Tiles, Wanted};
use crate::data::{Cache, CacheKey, Source};
use crate::error::ApiError;

/// Maximum number of rectangles of a cached view: finer than a screen, so that the first zooms need no reading.
const MAX_KEPT_RECTANGLES: usize = 300_000;
const PIXELS: u64 = 16_384;

#[derive(Debug, Default)]
pub struct Overviews(Cache<Tiles, 4>);

impl Overviews {
    pub fn tiles(&self, source: &Source, wanted: &Wanted) -> Result<Tiles, ApiError> {
        let all = Wanted {
            from_ns: source.first_ns,
            to_ns: source.last_ns.saturating_add(1),
            width: PIXELS as usize,
            filter: None,
            session: None,
        };
        let bin_ns = (source.last_ns.saturating_sub(source.first_ns) / PIXELS).max(1);
        let is_plain = wanted.filter.is_none() && wanted.session.is_none() && !source.growing();
        if is_plain && wanted.bin_ns() >= bin_ns {
            let key = CacheKey {
                source: source.id.clone(),
                generation: source.generation,
                from_ns: all.from_ns,
                to_ns: all.to_ns,
                filter: None,
            };
            let overview = self.0.get(key, || Tiles::read(source, &all, bin_ns, MAX_KEPT_RECTANGLES))?;
            if wanted.bin_ns() >= overview.bin_ns {
                return Ok(overview.part(wanted));
            }
        }
        Tiles::read(source, wanted, wanted.bin_ns(), MAX_RECTANGLES)
    }
}
