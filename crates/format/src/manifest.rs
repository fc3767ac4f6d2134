//! Manifests (docs/format/manifest.md).

use crate::Corrupt;
use crate::branch::{MAX_HEIGHT, PageRef};
use crate::cbor::{Sink, Source};
use crate::frame::{self, FrameKind, Next};
use crate::source::PAGE_SOURCES;

/// Bytes that are stored inline or in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Section {
    Inline(Vec<u8>),
    Page(PageRef),
}

/// Root of the index tree; `height` 0 means the root is a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Root {
    pub page: PageRef,
    pub height: u8,
    pub entries: u64,
}

/// What one commit made visible.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Manifest {
    pub version: u64,
    pub parent: u64,
    pub write_id: [u8; 16],
    pub uuid: [u8; 16],
    pub time: u64,
    pub marked: bool,
    pub last_marked: u64,
    pub fence: u64,
    pub schema: Section,
    pub steps: Section,
    pub source_pages: Vec<PageRef>,
    pub source_count: u32,
    pub root: Option<Root>,
    /// (source number, group number), ascending.
    pub ahead: Vec<(u32, u64)>,
    /// The published replica ([`crate::published`]), if there is one.
    pub published: Option<Section>,
    /// The boot in which everything was written that this snapshot needs and no earlier mark covers; `None` if it is
    /// unknown, or if there were several boots. The text is opaque: equal texts mean that the power was not cut in
    /// between.
    pub boot: Option<String>,
}

/// Longest name of a boot.
pub const MAX_BOOT: usize = 64;

/// Longest payload of a manifest.
pub const MAX_MANIFEST: usize = 64 * 1024;

/// Most bytes of pages before a manifest, frames included.
pub const MAX_PAGES: usize = 64 * 1024;

/// Longest inline section.
pub const MAX_INLINE: usize = 16 * 1024;

/// Greatest version: 12 digits.
pub const MAX_VERSION: u64 = 999_999_999_999;

impl Section {
    fn write(&self, out: &mut Sink) {
        match self {
            Section::Inline(bytes) => _ = out.array(2).u64(0).bytes(bytes),
            Section::Page(page) => page.write(out.array(2).u64(1)),
        }
    }

    fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        source.tuple(2)?;
        match source.u64()? {
            0 => Ok(Section::Inline(source.bytes()?.to_vec())),
            1 => Ok(Section::Page(PageRef::read(source)?)),
            kind => Err(source.corrupt(format!("unknown kind of section {kind}"))),
        }
    }
}

impl Root {
    fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        source.tuple(6)?;
        let page = PageRef::read_fields(source)?;
        Ok(Root { page, height: source.u8()?, entries: source.u64()? })
    }
}

impl Manifest {
    /// Checks the limits, and that the numbers are consistent.
    pub fn validate(&self) -> Result<(), String> {
        if self.version == 0 || self.version > MAX_VERSION || self.parent >= self.version {
            return Err(format!("version {} with parent {}", self.version, self.parent));
        }
        if self.last_marked > self.version {
            return Err(format!("version {} knows of the later mark {}", self.version, self.last_marked));
        }
        for section in [&self.schema, &self.steps].into_iter().chain(&self.published) {
            if let Section::Inline(bytes) = section
                && bytes.len() > MAX_INLINE
            {
                return Err(format!("an inline section of {} bytes, at most {MAX_INLINE}", bytes.len()));
            }
        }
        if self.source_pages.len() != (self.source_count as usize).div_ceil(PAGE_SOURCES) {
            return Err(format!("{} pages of {} sources", self.source_pages.len(), self.source_count));
        }
        if self.boot.as_ref().is_some_and(|boot| boot.is_empty() || boot.len() > MAX_BOOT) {
            return Err(format!("the name of a boot is not 1 to {MAX_BOOT} bytes long"));
        }
        if self.root.is_some_and(|root| root.height > MAX_HEIGHT) {
            return Err(format!("an index higher than {MAX_HEIGHT}"));
        }
        if !self.ahead.is_sorted_by(|a, b| a < b)
            || self.ahead.last().is_some_and(|&(source, _)| source >= self.source_count)
        {
            return Err("groups adopted ahead are out of order or of no source".into());
        }
        Ok(())
    }

    /// The whole file without pages. An error says which limit the manifest exceeds; such a manifest must not
    /// be stored.
    pub fn encode(&self) -> Result<Vec<u8>, Corrupt> {
        self.encode_after(Vec::new(), 0)
    }

    /// The whole file: `pages`, which holds `frames` whole frames (ordinals from 0), then the manifest. Errors are
    /// those of `encode`.
    pub fn encode_after(&self, mut pages: Vec<u8>, frames: u64) -> Result<Vec<u8>, Corrupt> {
        self.validate().map_err(|e| Corrupt::new(format!("manifest: {e}"), 0))?;
        let payload = self.payload();
        if payload.len() > MAX_MANIFEST || pages.len() > MAX_PAGES {
            return Err(Corrupt::new(
                format!(
                    "a manifest of {} bytes with {} of pages, at most {MAX_MANIFEST} each",
                    payload.len(),
                    pages.len()
                ),
                0,
            ));
        }
        frame::push(&mut pages, FrameKind::Manifest, frames, &payload);
        Ok(pages)
    }

    fn payload(&self) -> Vec<u8> {
        let mut out = Sink::new();
        out.map(14 + usize::from(self.published.is_some()) + usize::from(self.boot.is_some()))
            .u64(0)
            .u64(self.version)
            .u64(1)
            .u64(self.parent);
        out.u64(2).bytes(&self.write_id).u64(3).bytes(&self.uuid).u64(4).u64(self.time);
        out.u64(5).bool(self.marked).u64(6).u64(self.last_marked).u64(7).u64(self.fence);
        self.schema.write(out.u64(8));
        self.steps.write(out.u64(9));
        out.u64(10).array(self.source_pages.len());
        self.source_pages.iter().for_each(|page| page.write(&mut out));
        out.u64(11).u64(self.source_count.into()).u64(12);
        match &self.root {
            None => _ = out.null(),
            Some(Root { page, height, entries }) => {
                out.array(6).u64(page.file).u64(page.offset).u64(page.length.into()).u64(page.crc.into());
                out.u64((*height).into()).u64(*entries);
            }
        }
        out.u64(13).array(self.ahead.len());
        for (source, group) in &self.ahead {
            out.array(2).u64((*source).into()).u64(*group);
        }
        if let Some(published) = &self.published {
            published.write(out.u64(14));
        }
        if let Some(boot) = &self.boot {
            out.u64(15).text(boot);
        }
        out.finish()
    }

    /// Reads the whole file.
    pub fn decode(file: &[u8]) -> Result<Self, Corrupt> {
        let (mut at, mut ordinal) = (0u64, 0u64);
        loop {
            let (header, payload, end) = match frame::next(file, at, ordinal) {
                Next::Frame { header, payload, end } => (header, payload, end),
                Next::End => return Err(Corrupt { what: "the manifest is missing".into(), at }),
                Next::Torn(e) => return Err(Corrupt { what: e.what, at: at.max(e.at) }),
            };
            match header.kind {
                FrameKind::Leaf | FrameKind::Branch | FrameKind::Section if end <= MAX_PAGES as u64 => {
                    at = end;
                    ordinal += 1;
                }
                FrameKind::Manifest if end != file.len() as u64 => {
                    return Err(Corrupt { what: "bytes after a manifest".into(), at: end });
                }
                FrameKind::Manifest if payload.len() > MAX_MANIFEST => {
                    return Err(Corrupt { what: format!("a manifest of {} bytes", payload.len()), at });
                }
                FrameKind::Manifest => {
                    let base = at + frame::HEADER as u64;
                    return Self::read(payload).map_err(|e| Corrupt { what: e.what, at: e.at + base });
                }
                _ => {
                    return Err(Corrupt {
                        what: "the frame is neither a page nor a manifest".into(),
                        at: at + 4,
                    });
                }
            }
        }
    }

    fn read(payload: &[u8]) -> Result<Self, Corrupt> {
        let mut source = Source::new(payload);
        let (mut version, mut parent, mut write_id, mut uuid, mut time) = (None, None, None, None, None);
        let (mut marked, mut last_marked, mut fence, mut schema, mut steps) = (None, None, None, None, None);
        let (mut source_pages, mut source_count, mut root, mut ahead) = (None, None, None, None);
        let (mut published, mut boot) = (None, None);
        source.fields(|source, key| {
            match key {
                0 => version = Some(source.u64()?),
                1 => parent = Some(source.u64()?),
                2 => write_id = Some(source.bytes16()?),
                3 => uuid = Some(source.bytes16()?),
                4 => time = Some(source.u64()?),
                5 => marked = Some(source.bool()?),
                6 => last_marked = Some(source.u64()?),
                7 => fence = Some(source.u64()?),
                8 => schema = Some(Section::read(source)?),
                9 => steps = Some(Section::read(source)?),
                10 => source_pages = Some(source.list(PageRef::read)?),
                11 => source_count = Some(source.u32()?),
                12 if source.null()? => root = Some(None),
                12 => root = Some(Some(Root::read(source)?)),
                13 => {
                    ahead = Some(source.list(|source| {
                        source.tuple(2)?;
                        Ok((source.u32()?, source.u64()?))
                    })?)
                }
                14 => published = Some(Section::read(source)?),
                15 => boot = Some(source.text()?.to_owned()),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        source.end()?;
        let manifest = Manifest {
            version: source.need(version, "version")?,
            parent: source.need(parent, "parent")?,
            write_id: source.need(write_id, "write id")?,
            uuid: source.need(uuid, "uuid")?,
            time: source.need(time, "time")?,
            marked: source.need(marked, "marked")?,
            last_marked: source.need(last_marked, "last marked version")?,
            fence: source.need(fence, "fence")?,
            schema: source.need(schema, "schema")?,
            steps: source.need(steps, "steps")?,
            source_pages: source.need(source_pages, "source pages")?,
            source_count: source.need(source_count, "number of sources")?,
            root: source.need(root, "root")?,
            ahead: source.need(ahead, "groups adopted ahead")?,
            published,
            boot,
        };
        manifest.validate().map_err(|e| source.corrupt(format!("manifest: {e}")))?;
        Ok(manifest)
    }
}
