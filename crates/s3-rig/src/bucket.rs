//! Buckets, objects and uploads in memory. No network; the clock is used only for times of changes.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;

/// An object as it was put.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its content.
    pub bytes: Bytes,
    /// Its entity tag, with quotation marks.
    pub etag: String,
    /// `x-amz-meta-*` headers of the put.
    pub metadata: Vec<(String, String)>,
    /// When it was put.
    pub modified: SystemTime,
}

/// An upload in parts that is neither completed nor aborted.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) parts: BTreeMap<u32, Bytes>,
    pub(crate) begun: SystemTime,
}

/// The condition of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    None,
    /// `If-None-Match: *`
    Absent,
    /// `If-Match: TAG`
    Match(String),
}

/// Everything the server holds.
#[derive(Debug, Default)]
pub struct Objects {
    pub(crate) buckets: BTreeMap<String, BTreeMap<String, Object>>,
    pub(crate) uploads: BTreeMap<String, Upload>,
    puts: u64,
}

impl Objects {
    /// The object, if it exists.
    pub fn get(&self, bucket: &str, key: &str) -> Option<&Object> {
        self.buckets.get(bucket)?.get(key)
    }

    /// All keys of a bucket.
    pub fn keys(&self, bucket: &str) -> Vec<String> {
        self.buckets.get(bucket).map(|bucket| bucket.keys().cloned().collect()).unwrap_or_default()
    }

    /// Removes all objects of a bucket; the bucket stays.
    pub fn clear(&mut self, bucket: &str) {
        if let Some(bucket) = self.buckets.get_mut(bucket) {
            bucket.clear();
        }
    }

    /// Number of open uploads in parts.
    pub fn open_uploads(&self) -> usize {
        self.uploads.len()
    }

    /// Makes all open uploads look older.
    pub fn age_uploads(&mut self, by: std::time::Duration) {
        self.uploads.values_mut().for_each(|upload| upload.begun -= by);
    }

    /// Puts an object without a request.
    pub fn put(&mut self, bucket: &str, key: &str, bytes: impl Into<Bytes>) {
        let _ = self.put_if(bucket, key, bytes.into(), Vec::new(), &Condition::None);
    }

    /// Puts an object; returns its entity tag, or the status of the refusal.
    pub(crate) fn put_if(
        &mut self,
        bucket: &str,
        key: &str,
        bytes: Bytes,
        metadata: Vec<(String, String)>,
        condition: &Condition,
    ) -> Result<String, u16> {
        let objects = self.buckets.get_mut(bucket).ok_or(404_u16)?;
        let there = objects.get(key);
        match condition {
            Condition::None => {}
            Condition::Absent if there.is_some() => return Err(412),
            Condition::Absent => {}
            Condition::Match(tag) => match there {
                None => return Err(404),
                Some(object) if object.etag != *tag => return Err(412),
                Some(_) => {}
            },
        }
        self.puts += 1;
        // Every put has a tag of its own, even for equal bytes.
        let etag = format!("\"{:032x}\"", self.puts);
        let object = Object { bytes, etag: etag.clone(), metadata, modified: SystemTime::now() };
        objects.insert(key.to_owned(), object);
        Ok(etag)
    }

    pub(crate) fn begin_upload(
        &mut self,
        bucket: &str,
        key: &str,
        metadata: Vec<(String, String)>,
    ) -> Result<String, u16> {
        if !self.buckets.contains_key(bucket) {
            return Err(404);
        }
        self.puts += 1;
        let id = format!("upload-{}", self.puts);
        let upload = Upload {
            bucket: bucket.into(),
            key: key.into(),
            metadata,
            parts: BTreeMap::new(),
            begun: SystemTime::now(),
        };
        self.uploads.insert(id.clone(), upload);
        Ok(id)
    }

    pub(crate) fn put_part(&mut self, id: &str, number: u32, bytes: Bytes) -> Result<String, u16> {
        let upload = self.uploads.get_mut(id).ok_or(404_u16)?;
        upload.parts.insert(number, bytes);
        Ok(format!("\"part-{number}\""))
    }

    pub(crate) fn complete(
        &mut self,
        id: &str,
        numbers: &[u32],
        condition: &Condition,
    ) -> Result<String, u16> {
        let upload = self.uploads.get(id).ok_or(404_u16)?;
        let mut whole = Vec::new();
        for number in numbers {
            whole.extend_from_slice(upload.parts.get(number).ok_or(400_u16)?);
        }
        let upload = upload.clone();
        let etag = self.put_if(&upload.bucket, &upload.key, whole.into(), upload.metadata, condition)?;
        self.uploads.remove(id);
        Ok(etag)
    }
}
