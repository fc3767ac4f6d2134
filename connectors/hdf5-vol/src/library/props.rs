//! Property lists of the library: the parts of creation lists that are kept, and lists made from those.

use crate::library::abi::{Hid, P_DEFAULT};
use crate::library::failure::{Failure, Result};
use crate::library::host::{Host, quietly};
use crate::model::element;
use crate::model::tree::{Filter, Properties, Space};

/// A property list id that is closed when it is dropped.
pub struct List {
    host: &'static Host,
    /// The id.
    pub id: Hid,
}

impl List {
    /// Takes over an id that a call has returned.
    pub fn own(host: &'static Host, id: Hid) -> List {
        List { host, id }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: an id of our own.
        unsafe { (self.host.api.H5Pclose)(self.id) };
    }
}

impl List {
    /// A new list of a class, given by the name of its id variable.
    pub fn new(host: &'static Host, class: &'static str) -> Result<List> {
        // SAFETY: an id of the library.
        let id = unsafe { (host.api.H5Pcreate)(host.global(class)) };
        if id < 0 { Err(Failure::library("cannot make a property list")) } else { Ok(List { host, id }) }
    }

    /// A copy.
    pub fn copy(host: &'static Host, id: Hid) -> Result<List> {
        // SAFETY: any id may be given.
        let id = unsafe { (host.api.H5Pcopy)(id) };
        if id < 0 { Err(Failure::library("cannot copy a property list")) } else { Ok(List { host, id }) }
    }

    /// Whether two lists are equal.
    pub fn says_the_same(&self, id: Hid) -> bool {
        // SAFETY: an id of our own, and any other.
        quietly(self.host, || unsafe { (self.host.api.H5Pequal)(self.id, id) }) > 0
    }

    /// Gives the id away.
    pub fn give(self) -> Hid {
        let id = self.id;
        std::mem::forget(self);
        id
    }
}

/// Whether intermediate groups must be created, and the character set of the name.
///
/// Refuses an id that is not a link creation list.
pub fn of_link(host: &Host, lcpl: Hid) -> Result<(bool, u8)> {
    if lcpl == P_DEFAULT {
        return Ok((false, 0));
    }
    let (mut make, mut cset) = (0u32, 0i32);
    // SAFETY: any id may be given; writes one number each.
    let is_list = quietly(host, || unsafe {
        (host.api.H5Pget_create_intermediate_group)(lcpl, &mut make) >= 0
            && (host.api.H5Pget_char_encoding)(lcpl, &mut cset) >= 0
    });
    if !is_list {
        return Err(Failure::wrong_kind("not a link creation property list"));
    }
    Ok((make > 0, cset as u8))
}

/// Creation order of links and of attributes, and the attributes' phase, of a list for creating a group or
/// file.
pub fn of_group(host: &Host, gcpl: Hid) -> (u8, u8, (u32, u32), bool) {
    let (mut links, mut attributes, mut phase, mut times) = (0u32, 0u32, (8u32, 6u32), false);
    if gcpl != P_DEFAULT {
        // SAFETY: writes numbers.
        quietly(host, || unsafe {
            (host.api.H5Pget_link_creation_order)(gcpl, &mut links);
            (host.api.H5Pget_attr_creation_order)(gcpl, &mut attributes);
            (host.api.H5Pget_attr_phase_change)(gcpl, &mut phase.0, &mut phase.1);
            (host.api.H5Pget_obj_track_times)(gcpl, &mut times);
        });
    }
    (links as u8, attributes as u8, phase, times)
}

/// Creation order of attributes, phase, and whether times are kept, of any object creation list.
pub fn of_object(host: &Host, ocpl: Hid) -> (u8, (u32, u32), bool) {
    let (mut attributes, mut phase, mut times) = (0u32, (8u32, 6u32), false);
    if ocpl != P_DEFAULT {
        // SAFETY: writes numbers.
        quietly(host, || unsafe {
            (host.api.H5Pget_attr_creation_order)(ocpl, &mut attributes);
            (host.api.H5Pget_attr_phase_change)(ocpl, &mut phase.0, &mut phase.1);
            (host.api.H5Pget_obj_track_times)(ocpl, &mut times);
        });
    }
    (attributes as u8, phase, times)
}

/// When a fill value is written (`H5D_fill_time_t`).
pub mod fill_time {
    #![allow(missing_docs, reason = "names of the library")]
    pub const ALLOC: u8 = 0;
    pub const NEVER: u8 = 1;
}

/// The kept part of a dataset creation list. Refuses settings that would silently be ignored.
pub fn of_dataset(host: &Host, dcpl: Hid, space: &Space) -> Result<Properties> {
    let mut p =
        Properties { layout: 1, fill_defined: 1, fill_time: 2, alloc_time: 2, ..Properties::default() };
    if dcpl == P_DEFAULT {
        return check_extent(p, space);
    }
    let api = &host.api;
    // SAFETY: arrays have the room that the calls are told.
    unsafe {
        p.layout = match (api.H5Pget_layout)(dcpl) {
            n @ 0..=2 => n as u8,
            3 => return Err(Failure::unsupported("virtual datasets are not supported by this connector")),
            _ => return Err(Failure::library("cannot get the layout of a dataset")),
        };
        if (api.H5Pget_external_count)(dcpl) > 0 {
            return Err(Failure::unsupported("values in external files are not supported by this connector"));
        }
        if p.layout == 2 {
            let mut chunk = [0u64; 32];
            let rank = (api.H5Pget_chunk)(dcpl, 32, chunk.as_mut_ptr());
            p.chunk = chunk[..usize::try_from(rank).unwrap_or(0).min(32)].to_vec();
            if p.chunk.len() != space.dims().len() {
                return Err(Failure::invalid("dimensionality of chunks doesn't match the dataspace"));
            }
        }
        for i in 0..(api.H5Pget_nfilters)(dcpl).max(0) as u32 {
            let (mut flags, mut count, mut values, mut config) = (0u32, 32usize, [0u32; 32], 0u32);
            let id = (api.H5Pget_filter2)(
                dcpl,
                i,
                &mut flags,
                &mut count,
                values.as_mut_ptr(),
                0,
                std::ptr::null_mut(),
                &mut config,
            );
            let optional = flags & 1 != 0;
            if !element::is_known_filter(id) && !optional {
                return Err(Failure::unsupported(format!(
                    "the filter {id} has no counterpart in this connector; make it optional or leave it out"
                )));
            }
            p.filters.push(Filter { id, flags, values: values[..count.min(32)].to_vec() });
        }
        if !p.filters.is_empty() && p.layout != 2 {
            p.filters.retain(|f| f.flags & 1 == 0);
            if !p.filters.is_empty() {
                return Err(Failure::invalid("filters need a chunked layout"));
            }
        }
        let (mut defined, mut fill_time, mut alloc_time) = (1, 2, 2);
        (api.H5Pfill_value_defined)(dcpl, &mut defined);
        (api.H5Pget_fill_time)(dcpl, &mut fill_time);
        (api.H5Pget_alloc_time)(dcpl, &mut alloc_time);
        p.fill_defined = defined.clamp(0, 2) as u8;
        p.fill_time = fill_time.clamp(0, 2) as u8;
        p.alloc_time = alloc_time.clamp(0, 3) as u8;
        if p.fill_defined == 0 && p.fill_time == fill_time::ALLOC {
            return Err(Failure::invalid("a fill value is to be written, but none is defined"));
        }
    }
    check_extent(p, space)
}

fn check_extent(p: Properties, space: &Space) -> Result<Properties> {
    if let Space::Simple(dims, max) = space {
        if p.layout != 2 && dims != max {
            return Err(Failure::unsupported("extendible dataset requires chunked layout"));
        }
        if p.layout == 2 && p.chunk.iter().zip(max).any(|(c, m)| c > m) {
            return Err(Failure::invalid(
                "chunk size must be <= maximum dimension size for fixed-sized dimensions",
            ));
        }
    }
    Ok(p)
}

/// A list with which the dataset could be created again, without its fill value.
pub fn dataset_list(host: &'static Host, p: &Properties) -> Result<List> {
    let list = List::new(host, "H5P_CLS_DATASET_CREATE_ID_g\0")?;
    let api = &host.api;
    // SAFETY: arrays hold as many elements as the calls are told.
    unsafe {
        match p.layout {
            2 => (api.H5Pset_chunk)(list.id, p.chunk.len() as i32, p.chunk.as_ptr()),
            n => (api.H5Pset_layout)(list.id, i32::from(n)),
        };
        for filter in &p.filters {
            // A filter that this library does not have can still be listed as optional.
            let there = (api.H5Zfilter_avail)(filter.id) > 0;
            let flags = if there { filter.flags } else { filter.flags | 1 };
            (api.H5Pset_filter)(list.id, filter.id, flags, filter.values.len(), filter.values.as_ptr());
        }
        (api.H5Pset_fill_time)(list.id, i32::from(p.fill_time));
        if p.alloc_time > 0 {
            (api.H5Pset_alloc_time)(list.id, i32::from(p.alloc_time));
        }
    }
    Ok(list)
}

/// Sets the properties that are kept of every object.
pub fn set_object(host: &Host, list: &List, order: u8, phase: (u32, u32), times: bool) {
    // SAFETY: plain numbers.
    quietly(host, || unsafe {
        (host.api.H5Pset_attr_creation_order)(list.id, u32::from(order));
        (host.api.H5Pset_attr_phase_change)(list.id, phase.0, phase.1);
        (host.api.H5Pset_obj_track_times)(list.id, times);
    });
}

/// A list as bytes (`H5Pencode2`); nothing where the library cannot.
pub fn encode(host: &Host, list: Hid) -> Vec<u8> {
    quietly(host, || {
        let mut size = 0;
        // SAFETY: the first call asks for the size, the second gets a buffer of it.
        unsafe {
            if list == P_DEFAULT
                || (host.api.H5Pencode2)(list, std::ptr::null_mut(), &mut size, P_DEFAULT) < 0
            {
                return Vec::new();
            }
            let mut out = vec![0u8; size];
            match (host.api.H5Pencode2)(list, out.as_mut_ptr().cast(), &mut size, P_DEFAULT) {
                rc if rc < 0 => Vec::new(),
                _ => out,
            }
        }
    })
}
