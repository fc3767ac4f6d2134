//! Finds the place of a container by its name, from the tables of the configuration and never from a path in the
//! request.

use std::path::{Path, PathBuf};

use drystone_format::keys;

use crate::Config;
use crate::name::is_name;

/// Where a container lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A container of the configuration: its path or URL.
    Container(String),
    /// Below a root.
    Below { root: PathBuf, path: PathBuf },
}

/// The place of this name; `None` if the configuration has none.
pub(crate) fn place(config: &Config, name: &str) -> Option<Place> {
    if !is_name(name) {
        return None;
    }
    if let Some(place) = config.containers.get(name) {
        return Some(Place::Container(place.clone()));
    }
    let below = config.roots.iter().filter_map(|(root, folder)| {
        let rest = name.strip_prefix(root.as_str())?.strip_prefix('/')?;
        Some((root.len(), folder, rest))
    });
    let (_, root, rest) = below.max_by_key(|(len, ..)| *len)?;
    Some(Place::Below { root: root.clone(), path: root.join(rest) })
}

/// Refuses a path below a root if a link leads out of the root, or if the path lies inside another container. For a
/// path that does not exist yet, the folders above it are checked.
pub(crate) fn check_below(root: &Path, path: &Path) -> Result<(), String> {
    let real_root =
        root.canonicalize().map_err(|error| format!("the root cannot be reached: {}", error.kind()))?;
    let mut above = path.to_path_buf();
    let mut is_container_itself = true;
    while above != root {
        if let Ok(real) = above.canonicalize() {
            if !real.starts_with(&real_root) {
                return Err("a link leads out of the root".into());
            }
        } else if above.symlink_metadata().is_ok() {
            return Err("a link leads nowhere".into());
        }
        if !is_container_itself && above.join(keys::IDENTITY).exists() {
            return Err("it would lie inside another container".into());
        }
        is_container_itself = false;
        if !above.pop() {
            return Err("it is not below the root".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text = "listen = [\"127.0.0.1:1\"]\n[containers]\nrun42 = \"/data/run42.dry\"\n\"a/b\" = \"/data/ab\"\n\
                    [roots]\nscratch = \"/data/scratch\"\n\"scratch/deep\" = \"/deep\"\n";
        Config::parse(text, Path::new("/")).unwrap()
    }

    #[test]
    fn names_lead_to_their_places() {
        let config = config();
        assert_eq!(place(&config, "run42"), Some(Place::Container("/data/run42.dry".into())));
        assert_eq!(place(&config, "a/b"), Some(Place::Container("/data/ab".into())));
        let below = |root: &str, path: &str| Some(Place::Below { root: root.into(), path: path.into() });
        assert_eq!(place(&config, "scratch/x/y.dry"), below("/data/scratch", "/data/scratch/x/y.dry"));
        assert_eq!(place(&config, "scratch/deep/y.dry"), below("/deep", "/deep/y.dry"));
        for none in ["run43", "run42/x", "scratch", "scratched/x", "a", ""] {
            assert_eq!(place(&config, none), None, "{none:?}");
        }
    }

    /// Paths that have led other servers out of their roots.
    #[test]
    fn no_name_leads_out_of_a_root() {
        let config = config();
        let corpus = [
            "scratch/..",
            "scratch/../etc",
            "scratch/./x",
            "scratch//etc/passwd",
            "scratch/x/",
            "/scratch/x",
            "scratch/.hidden",
            "scratch/x\0",
            "scratch/x\\..\\y",
            "scratch/%2e%2e/x",
            "scratch/..%2f",
            "scratch/x%00",
            "scratch/ü",
            "scratch/x y",
            "scratch/x?y",
            "scratch/x#y",
            "scratch/~root",
            "scratch/x:y",
            "scratch/\u{202e}x",
            "scratch/x\n",
            "scratch/o/x",
            "scratch/..;/x",
            "scratch/...",
            "scratch/x/..",
            "scratch/\u{ff0e}\u{ff0e}/x",
            "C:/x",
            "scratch/$HOME",
            "scratch/*",
        ];
        for name in corpus {
            assert_eq!(place(&config, name), None, "{name:?}");
        }
        assert_eq!(place(&config, &format!("scratch/{}", "x".repeat(256))), None);
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_a_root_and_containers_in_containers_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("a.dry")).unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        std::fs::write(root.join("a.dry").join(keys::IDENTITY), "{}").unwrap();
        std::os::unix::fs::symlink(dir.path().join("outside"), root.join("out")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
        std::os::unix::fs::symlink("a.dry", root.join("inside")).unwrap();
        for (path, is_sound) in [
            ("a.dry", true),
            ("inside", true),
            ("new/deep.dry", true),
            ("out", false),
            ("out/x.dry", false),
            ("dangling", false),
            ("dangling/x", false),
            ("a.dry/log", false),
            ("a.dry/x/y", false),
        ] {
            assert_eq!(check_below(&root, &root.join(path)).is_ok(), is_sound, "{path}");
        }
    }
}
