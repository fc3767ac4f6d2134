//! The messages of object headers: the kind of an object, and its attributes.

use crate::heap::Heap;
use crate::number::Number;
use crate::object::{ATTRIBUTE, Message};
use crate::{Attribute, Dataset, Datatype, Filter, Member, ObjectOffsets, Storage, UNDEFINED};

const DATASPACE: u8 = 0x01;
const LINK_INFO: u8 = 0x02;
const DATATYPE: u8 = 0x03;
const FILL_VALUE: u8 = 0x05;
const LINK: u8 = 0x06;
const LAYOUT: u8 = 0x08;
const GROUP_INFO: u8 = 0x0a;
const FILTERS: u8 = 0x0b;
const ATTRIBUTE_INFO: u8 = 0x15;

const CONSTANT: u8 = 0x01;
const SHARED: u8 = 0x02;
const UTF8: u8 = 1;

fn message(kind: u8, flags: u8, body: Vec<u8>) -> Message {
    Message { kind, flags, body }
}

/// The messages of a group, whose links are in its header in the order of their creation.
pub(super) fn group(links: usize, out: &mut Vec<Message>) {
    let mut body = vec![0, 0x03];
    body.extend_from_slice(&(links as u64).to_le_bytes());
    for _ in 0..3 {
        body.extend_from_slice(&UNDEFINED.to_le_bytes());
    }
    out.push(message(LINK_INFO, 0, body));
    out.push(message(GROUP_INFO, CONSTANT, vec![0, 0]));
}

pub(super) fn link(name: &str, order: u64, address: u64) -> Message {
    // The name's length has two bytes; creation order and character set are present.
    let mut body = vec![1, 0x01 | 0x04 | 0x10];
    body.extend_from_slice(&order.to_le_bytes());
    body.push(UTF8);
    body.extend_from_slice(&(name.len() as u16).to_le_bytes());
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(&address.to_le_bytes());
    message(LINK, 0, body)
}

pub(super) fn datatype(datatype: &Datatype, places: &[ObjectOffsets]) -> Message {
    let shared = if matches!(datatype, Datatype::Named(..)) { SHARED } else { 0 };
    message(DATATYPE, CONSTANT | shared, datatype.encode(places))
}

/// The messages of a dataset: its type, shape and storage.
pub(super) fn dataset(dataset: &Dataset, data: u64, places: &[ObjectOffsets], out: &mut Vec<Message>) {
    let chunked = match &dataset.storage {
        Storage::Chunked { chunk, .. } => Some(chunk),
        _ => None,
    };
    out.push(message(DATASPACE, 0, dataspace(Some(&dataset.shape), chunked.map(Vec::as_slice))));
    out.push(self::datatype(&dataset.datatype, places));
    // Space is allocated late or, for chunks, one by one.
    let allocation = if chunked.is_some() { 3 } else { 2 };
    let mut fill = vec![3, allocation | 2 << 2];
    if let Some(value) = &dataset.fill {
        fill[1] |= 0x20;
        fill.extend_from_slice(&(value.len() as u32).to_le_bytes());
        fill.extend_from_slice(value);
    }
    out.push(message(FILL_VALUE, CONSTANT, fill));
    let size = u64::from(dataset.datatype.size());
    let mut layout = vec![3];
    match &dataset.storage {
        Storage::Nothing => {
            layout.push(1);
            layout.extend_from_slice(&UNDEFINED.to_le_bytes());
            let bytes = dataset.shape.iter().fold(size, |n, e| n.saturating_mul(*e));
            layout.extend_from_slice(&bytes.to_le_bytes());
        }
        Storage::Inline(bytes) => {
            layout.push(1);
            let address = if bytes.is_empty() { UNDEFINED } else { data };
            layout.extend_from_slice(&address.to_le_bytes());
            layout.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        }
        Storage::Contiguous { address, len } => {
            layout.push(1);
            let address = if *len == 0 { UNDEFINED } else { *address };
            layout.extend_from_slice(&address.to_le_bytes());
            layout.extend_from_slice(&len.to_le_bytes());
        }
        Storage::Chunked { chunk, filters: chain, chunks } => {
            layout.extend_from_slice(&[2, chunk.len() as u8 + 1]);
            let address = if chunks.is_empty() { UNDEFINED } else { data };
            layout.extend_from_slice(&address.to_le_bytes());
            for extent in chunk.iter().copied().chain([size]) {
                layout.extend_from_slice(&(extent as u32).to_le_bytes());
            }
            if !chain.is_empty() {
                out.push(message(FILTERS, CONSTANT, filters(chain)));
            }
        }
    }
    out.push(message(LAYOUT, 0, layout));
}

fn filters(chain: &[Filter]) -> Vec<u8> {
    const HDF5_OWN: u16 = 256;
    let mut body = vec![2, chain.len() as u8];
    for filter in chain {
        body.extend_from_slice(&filter.id.to_le_bytes());
        let name = (filter.id >= HDF5_OWN).then(|| [filter.name.as_bytes(), &[0]].concat());
        if let Some(name) = &name {
            body.extend_from_slice(&(name.len() as u16).to_le_bytes());
        }
        body.extend_from_slice(&0u16.to_le_bytes());
        body.extend_from_slice(&(filter.values.len() as u16).to_le_bytes());
        body.extend_from_slice(&name.unwrap_or_default());
        filter.values.iter().for_each(|value| body.extend_from_slice(&value.to_le_bytes()));
    }
    body
}

/// An extent may grow to that of a chunk, since HDF5 wants chunks with at most as many cells as the array may have.
fn dataspace(shape: Option<&[u64]>, chunk: Option<&[u64]>) -> Vec<u8> {
    let Some(shape) = shape.filter(|shape| !shape.is_empty()) else {
        return vec![2, 0, 0, 0];
    };
    let largest = |chunk: &[u64]| -> Vec<u64> { shape.iter().zip(chunk).map(|(n, c)| *n.max(c)).collect() };
    let limit = chunk.map(largest);
    let mut body = vec![2, shape.len() as u8, u8::from(limit.is_some()), 1];
    for extent in shape.iter().chain(limit.iter().flatten()) {
        body.extend_from_slice(&extent.to_le_bytes());
    }
    body
}

/// The message that says that the attributes are in the header, in the order of their creation.
pub(super) fn attribute_info(many: usize, out: &mut Vec<Message>) {
    if many > 0 {
        let mut body = vec![0, 0x01];
        body.extend_from_slice(&(many as u16).to_le_bytes());
        body.extend_from_slice(&UNDEFINED.to_le_bytes());
        body.extend_from_slice(&UNDEFINED.to_le_bytes());
        out.push(message(ATTRIBUTE_INFO, 0, body));
    }
}

pub(super) fn attribute(name: &str, value: &Attribute, places: &[ObjectOffsets], heap: &mut Heap) -> Message {
    let address = |id: &super::Id| places[id.0].header.to_le_bytes();
    let (datatype, shape, bytes) = match value {
        Attribute::Values { datatype, shape, bytes } => (datatype.clone(), shape.clone(), bytes.clone()),
        Attribute::Text(text) => {
            let mut bytes = text.clone().into_bytes();
            if bytes.is_empty() {
                bytes.push(0);
            }
            (Datatype::Text(bytes.len() as u32), None, bytes)
        }
        Attribute::Texts(texts) => {
            let bytes = texts.iter().flat_map(|t| heap.put(t.len() as u32, t.as_bytes())).collect();
            (Datatype::AnyText, Some(vec![texts.len() as u64]), bytes)
        }
        Attribute::Axes(axes) => {
            let bytes = axes.iter().flat_map(|ids| {
                let all: Vec<u8> = ids.iter().flat_map(address).collect();
                heap.put(ids.len() as u32, &all)
            });
            let bytes = bytes.collect();
            (Datatype::ReferenceList, Some(vec![axes.len() as u64]), bytes)
        }
        Attribute::References(all) => {
            let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
            let number = Datatype::Number(Number::I32);
            let members = vec![member("dataset", 0, Datatype::Reference), member("dimension", 8, number)];
            let bytes = all.iter().flat_map(|(id, axis)| {
                let mut one = address(id).to_vec();
                one.extend_from_slice(&u64::from(*axis).to_le_bytes());
                one
            });
            let bytes: Vec<u8> = bytes.collect();
            (Datatype::Compound { size: 16, members }, Some(vec![all.len() as u64]), bytes)
        }
    };
    let space = dataspace(shape.as_deref(), None);
    let shared = u8::from(matches!(datatype, Datatype::Named(..)));
    let datatype = datatype.encode(places);
    let mut body = vec![3, shared];
    for len in [name.len() + 1, datatype.len(), space.len()] {
        body.extend_from_slice(&(len as u16).to_le_bytes());
    }
    body.push(UTF8);
    body.extend_from_slice(name.as_bytes());
    body.push(0);
    body.extend_from_slice(&datatype);
    body.extend_from_slice(&space);
    body.extend_from_slice(&bytes);
    message(ATTRIBUTE, 0, body)
}
