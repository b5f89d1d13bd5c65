//! Sources of keys: a file, the environment, the system's key store, tried in this order and only when needed.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use ortscope_channel::disk::open_to_read;
use ortscope_channel::journal::{JournalFileReader, journal_seal};
use ortscope_channel::seal::Sealer;

use super::key::{KEY_VARIABLE, Key};
use super::seal::{SEAL_HEADER_BYTES, Seal, id_of};
use crate::StoreError;
use crate::files::{JOURNAL, entries, segment_files};
use crate::segment::{Segment, sealed_header};

/// Asks the system's key store: returns the text of a key, nothing, or the error.
type AskSystem = fn() -> Result<Option<String>, String>;

/// Where this process looks for keys. The environment is always included.
#[derive(Debug, Clone, Default)]
pub struct KeySources {
    /// A file that the user named.
    pub file: Option<PathBuf>,
    /// The system's key store, where there is one.
    pub system: Option<AskSystem>,
}

static SOURCES: RwLock<KeySources> = RwLock::new(KeySources { file: None, system: None });

/// Sets where the keys of encrypted recordings are. The default is the environment only.
pub fn set_key_sources(sources: KeySources) {
    *SOURCES.write().unwrap_or_else(PoisonError::into_inner) = sources;
}

impl KeySources {
    /// Those of this process.
    pub fn current() -> Self {
        SOURCES.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key to encrypt with: the first there is.
    pub fn first(&self) -> Result<Key, StoreError> {
        let mut problem = None;
        let found = self.each(&mut problem).next();
        found.unwrap_or_else(|| {
            let because = problem.map_or_else(String::new, |problem| format!(" ({problem})"));
            Err(StoreError::Key {
                problem: format!("there is no key to encrypt with{because}"),
                hint: format!(
                    "`ortscope key new -o FILE` makes one; name it with --key-file, or set {KEY_VARIABLE}"
                ),
            })
        })
    }

    /// The keys of each source, in order. Empty sources are skipped.
    fn each<'a>(
        &'a self,
        problem: &'a mut Option<String>,
    ) -> impl Iterator<Item = Result<Key, StoreError>> + 'a {
        let named = self.file.iter().map(|path| Key::from_file(path));
        let environment = std::iter::once_with(from_environment).flatten();
        let system = self.system.into_iter().filter_map(move |ask| match ask() {
            Ok(text) => text.map(|text| {
                Key::parse(&text).map_err(|problem| StoreError::Key {
                    problem: format!("what the system's key store has cannot be used: {problem}"),
                    hint: "`ortscope key new --system --force` replaces it".into(),
                })
            }),
            Err(error) => {
                tracing::debug!("the system's key store: {error}");
                *problem = Some(error);
                None
            }
        });
        named.chain(environment).chain(system)
    }
}

fn from_environment() -> Option<Result<Key, StoreError>> {
    let value = std::env::var_os(KEY_VARIABLE).filter(|value| !value.is_empty())?;
    Some(Key::parse(&value.to_string_lossy()).map_err(|problem| StoreError::Key {
        problem: format!("{KEY_VARIABLE} cannot be used: {problem}"),
        hint: "`ortscope key new` prints one".into(),
    }))
}

/// The keys of a recording, from the unencrypted header of one of its files.
pub(crate) fn find_key(
    place: &str,
    header: &[u8; SEAL_HEADER_BYTES],
    is_kept: bool,
) -> Result<Seal, StoreError> {
    let wanted = id_of(header);
    let (mut given, mut first_problem, mut system) = (Vec::new(), None, None);
    for key in KeySources::current().each(&mut system) {
        match key {
            Ok(key) if key.id() == wanted => return Ok(Seal::of_header(&key, header)),
            Ok(key) => given.push(key.id().to_string()),
            Err(error) => first_problem = first_problem.or(Some(error)),
        }
    }
    // A key that cannot be read is the reason that none fits.
    match first_problem {
        Some(problem) if given.is_empty() => Err(problem),
        _ => Err(StoreError::NoKey { place: place.to_owned(), key: wanted.to_string(), given, is_kept }),
    }
}

/// The keys of a recording whose manifest is lost, from the unencrypted headers of its other files; `None` if it is
/// not encrypted.
///
/// Headers may be damaged too: a key that opens the file is accepted at once, others only if there is none.
pub(crate) fn seal_of_files(recording: &Path) -> Result<Option<Seal>, StoreError> {
    let place = recording.display().to_string();
    let (mut doubtful, mut refused) = (None, None);
    for (_, path) in segment_files(recording)? {
        let Some(header) = sealed_header(&mut open_to_read(&path)?)? else { continue };
        match find_key(&place, &header, true) {
            Ok(seal) if Segment::open(&path, Some(&seal))?.is_ok() => return Ok(Some(seal)),
            Ok(seal) => doubtful = doubtful.or(Some(seal)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    for path in entries(&recording.join(JOURNAL))? {
        let Some(header) = journal_seal(&path)? else { continue };
        match find_key(&place, &header, true) {
            Ok(seal) if opens_journal(&path, &seal) => return Ok(Some(seal)),
            Ok(seal) => doubtful = doubtful.or(Some(seal)),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match (doubtful, refused) {
        (None, Some(error)) => Err(error),
        (doubtful, _) => Ok(doubtful),
    }
}

/// Whether anything in a journal file can be read with these keys.
fn opens_journal(path: &Path, seal: &Seal) -> bool {
    let reader = JournalFileReader::open_sealed(path, Some(seal as &dyn Sealer));
    reader.is_ok_and(|mut reader| reader.next_batch().is_some())
}
