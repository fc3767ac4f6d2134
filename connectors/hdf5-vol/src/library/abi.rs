//! The structs of HDF5's plug-in interface (`H5VLconnector.h`, `H5VL_VERSION` 3), as HDF5 1.14.4 to 2.2 lay them out.
//!
//! Only declarations. Names of fields follow the header, so that the two can be read side by side; the sizes
//! were measured with three versions of the library and are checked at compile time.

#![allow(missing_docs, reason = "the library's header documents them")]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

pub type Hid = i64;
pub type Herr = c_int;
pub type Void = *mut c_void;
/// `void **req`: the place of an asynchronous request. Never used here.
pub type Req = *mut *mut c_void;

pub const VERSION: c_uint = 3;
pub const S_ALL: Hid = 0;
pub const S_BLOCK: Hid = 1;
pub const S_PLIST: Hid = 2;
pub const P_DEFAULT: Hid = 0;
pub const E_DEFAULT: Hid = 0;
pub const UNLIMITED: u64 = u64::MAX;

/// Kinds of ids (`H5I_type_t`).
pub mod id {
    pub const FILE: i32 = 1;
    pub const GROUP: i32 = 2;
    pub const DATATYPE: i32 = 3;
    pub const DATASET: i32 = 5;
    pub const ATTR: i32 = 7;
}

/// Kinds of objects (`H5O_type_t`).
pub mod object_type {
    pub const GROUP: i32 = 0;
    pub const DATASET: i32 = 1;
    pub const DATATYPE: i32 = 2;
}

/// Flags of opening (`H5F_ACC_*`).
pub mod access {
    pub const RDWR: u32 = 1;
    pub const TRUNC: u32 = 2;
    pub const EXCL: u32 = 4;
    pub const SWMR_WRITE: u32 = 0x20;
    pub const SWMR_READ: u32 = 0x40;
    /// For an external link: as in the file that contains it.
    pub const INHERITED: u32 = 0xffff;
}

/// Kinds of links (`H5L_type_t`).
pub mod link_type {
    pub const HARD: i32 = 0;
    pub const SOFT: i32 = 1;
    pub const EXTERNAL: i32 = 64;
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token(pub [u8; 16]);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LocByName {
    pub name: *const c_char,
    pub lapl_id: Hid,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LocByIdx {
    pub name: *const c_char,
    pub idx_type: c_int,
    pub order: c_int,
    pub n: u64,
    pub lapl_id: Hid,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union LocData {
    pub token: *mut Token,
    pub by_name: LocByName,
    pub by_idx: LocByIdx,
}

/// How a callback identifies its object: `kind` 0 itself, 1 by name, 2 by index, 3 by token.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Loc {
    pub obj_type: c_int,
    pub kind: c_int,
    pub data: LocData,
}

#[repr(C)]
pub struct OptionalArgs {
    pub op_type: c_int,
    pub args: Void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttrInfo {
    pub corder_valid: bool,
    pub corder: u32,
    pub cset: c_int,
    pub data_size: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttrGetName {
    pub loc: Loc,
    pub buf_size: usize,
    pub buf: *mut c_char,
    pub len: *mut usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttrGetInfo {
    pub loc: Loc,
    pub name: *const c_char,
    pub info: *mut AttrInfo,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union AttrGetUnion {
    pub id: Hid,
    pub info: AttrGetInfo,
    pub name: AttrGetName,
    pub size: *mut u64,
}

/// 0 acpl, 1 info, 2 name, 3 space, 4 storage size, 5 type.
#[repr(C)]
pub struct AttrGet {
    pub op: c_int,
    pub args: AttrGetUnion,
}

pub type AttrOp = unsafe extern "C" fn(Hid, *const c_char, *const AttrInfo, Void) -> Herr;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttrIterate {
    pub idx_type: c_int,
    pub order: c_int,
    pub idx: *mut u64,
    pub op: Option<AttrOp>,
    pub op_data: Void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttrByIdx {
    pub idx_type: c_int,
    pub order: c_int,
    pub n: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttrExists {
    pub name: *const c_char,
    pub exists: *mut bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AttrRename {
    pub old: *const c_char,
    pub new: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union AttrSpecificUnion {
    pub name: *const c_char,
    pub by_idx: AttrByIdx,
    pub exists: AttrExists,
    pub iterate: AttrIterate,
    pub rename: AttrRename,
}

/// 0 delete, 1 delete by index, 2 exists, 3 iterate, 4 rename.
#[repr(C)]
pub struct AttrSpecific {
    pub op: c_int,
    pub args: AttrSpecificUnion,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union DatasetGetUnion {
    pub id: Hid,
    pub status: *mut c_int,
    pub size: *mut u64,
}

/// 0 dapl, 1 dcpl, 2 space, 3 space status, 4 storage size, 5 type.
#[repr(C)]
pub struct DatasetGet {
    pub op: c_int,
    pub args: DatasetGetUnion,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union DatasetSpecificUnion {
    pub size: *const u64,
    pub id: Hid,
}

/// 0 set extent, 1 flush, 2 refresh.
#[repr(C)]
pub struct DatasetSpecific {
    pub op: c_int,
    pub args: DatasetSpecificUnion,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Binary {
    pub buf: Void,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union DatatypeGetUnion {
    pub size: *mut usize,
    pub binary: Binary,
    pub id: Hid,
}

/// 0 binary size, 1 binary, 2 tcpl.
#[repr(C)]
pub struct DatatypeGet {
    pub op: c_int,
    pub args: DatatypeGetUnion,
}

/// 0 flush, 1 refresh.
#[repr(C)]
pub struct IdSpecific {
    pub op: c_int,
    pub id: Hid,
}

#[repr(C)]
pub struct ContInfo {
    pub version: c_uint,
    pub feature_flags: u64,
    pub token_size: usize,
    pub blob_id_size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileGetName {
    pub obj_type: c_int,
    pub buf_size: usize,
    pub buf: *mut c_char,
    pub len: *mut usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileObjCount {
    pub types: c_uint,
    pub count: *mut usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileObjIds {
    pub types: c_uint,
    pub max: usize,
    pub list: *mut Hid,
    pub count: *mut usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union FileGetUnion {
    pub info: *mut ContInfo,
    pub id: Hid,
    pub fileno: *mut c_ulong,
    pub flags: *mut c_uint,
    pub name: FileGetName,
    pub obj_count: FileObjCount,
    pub obj_ids: FileObjIds,
}

/// 0 container info, 1 fapl, 2 fcpl, 3 number, 4 intent, 5 name, 6 count of ids, 7 ids.
#[repr(C)]
pub struct FileGet {
    pub op: c_int,
    pub args: FileGetUnion,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileAccessible {
    pub name: *const c_char,
    pub fapl_id: Hid,
    pub accessible: *mut bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileEqual {
    pub other: Void,
    pub same: *mut bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileFlush {
    pub obj_type: c_int,
    pub scope: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union FileSpecificUnion {
    pub flush: FileFlush,
    pub file: *mut Void,
    pub accessible: FileAccessible,
    pub equal: FileEqual,
}

/// 0 flush, 1 reopen, 2 is accessible, 3 delete, 4 is equal.
#[repr(C)]
pub struct FileSpecific {
    pub op: c_int,
    pub args: FileSpecificUnion,
}

#[repr(C)]
pub struct GroupInfo {
    pub storage_type: c_int,
    pub nlinks: u64,
    pub max_corder: i64,
    pub mounted: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupGetInfo {
    pub loc: Loc,
    pub info: *mut GroupInfo,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union GroupGetUnion {
    pub id: Hid,
    pub info: GroupGetInfo,
}

/// 0 gcpl, 1 info.
#[repr(C)]
pub struct GroupGet {
    pub op: c_int,
    pub args: GroupGetUnion,
}

/// 0 mount, 1 unmount, 2 flush, 3 refresh. The arguments are ignored.
#[repr(C)]
pub struct GroupSpecific {
    pub op: c_int,
    pub args: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkHard {
    pub obj: Void,
    pub loc: Loc,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkUd {
    pub kind: c_int,
    pub buf: *const c_void,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union LinkCreateUnion {
    pub hard: LinkHard,
    pub target: *const c_char,
    pub ud: LinkUd,
}

/// 0 hard, 1 soft, 2 user-defined (external links too).
#[repr(C)]
pub struct LinkCreate {
    pub op: c_int,
    pub args: LinkCreateUnion,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union LinkInfoUnion {
    pub token: Token,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkInfo {
    pub kind: c_int,
    pub corder_valid: bool,
    pub corder: i64,
    pub cset: c_int,
    pub u: LinkInfoUnion,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkGetName {
    pub size: usize,
    pub name: *mut c_char,
    pub len: *mut usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkGetVal {
    pub size: usize,
    pub buf: Void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union LinkGetUnion {
    pub info: *mut LinkInfo,
    pub name: LinkGetName,
    pub val: LinkGetVal,
}

/// 0 info, 1 name, 2 value.
#[repr(C)]
pub struct LinkGet {
    pub op: c_int,
    pub args: LinkGetUnion,
}

pub type LinkOp = unsafe extern "C" fn(Hid, *const c_char, *const LinkInfo, Void) -> Herr;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkIterate {
    pub recursive: bool,
    pub idx_type: c_int,
    pub order: c_int,
    pub idx: *mut u64,
    pub op: Option<LinkOp>,
    pub op_data: Void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union LinkSpecificUnion {
    pub exists: *mut bool,
    pub iterate: LinkIterate,
}

/// 0 delete, 1 exists, 2 iterate.
#[repr(C)]
pub struct LinkSpecific {
    pub op: c_int,
    pub args: LinkSpecificUnion,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObjectInfo {
    pub fileno: c_ulong,
    pub token: Token,
    pub kind: c_int,
    pub rc: c_uint,
    pub atime: i64,
    pub mtime: i64,
    pub ctime: i64,
    pub btime: i64,
    pub num_attrs: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObjectGetName {
    pub size: usize,
    pub buf: *mut c_char,
    pub len: *mut usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObjectGetInfo {
    pub fields: c_uint,
    pub info: *mut ObjectInfo,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union ObjectGetUnion {
    pub file: *mut Void,
    pub name: ObjectGetName,
    pub kind: *mut c_int,
    pub info: ObjectGetInfo,
}

/// 0 file, 1 name, 2 type, 3 info.
#[repr(C)]
pub struct ObjectGet {
    pub op: c_int,
    pub args: ObjectGetUnion,
}

pub type ObjectOp = unsafe extern "C" fn(Hid, *const c_char, *const ObjectInfo, Void) -> Herr;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ObjectVisit {
    pub idx_type: c_int,
    pub order: c_int,
    pub fields: c_uint,
    pub op: Option<ObjectOp>,
    pub op_data: Void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union ObjectSpecificUnion {
    pub delta: c_int,
    pub exists: *mut bool,
    pub token: *mut Token,
    pub visit: ObjectVisit,
    pub id: Hid,
}

/// 0 change the reference count, 1 exists, 2 look up, 3 visit, 4 flush, 5 refresh.
#[repr(C)]
pub struct ObjectSpecific {
    pub op: c_int,
    pub args: ObjectSpecificUnion,
}

/// 0 delete, 1 is null, 2 set null.
#[repr(C)]
pub struct BlobSpecific {
    pub op: c_int,
    pub is_null: *mut bool,
}

/// Header information of `H5O_native_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct NativeInfo {
    pub version: c_uint,
    pub nmesgs: c_uint,
    pub nchunks: c_uint,
    pub flags: c_uint,
    pub space: [u64; 4],
    pub mesg: [u64; 2],
    pub meta_size: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct GetNativeInfo {
    pub fields: c_uint,
    pub info: *mut NativeInfo,
}

/// `H5G_stat_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GroupStat {
    pub fileno: [c_ulong; 2],
    pub objno: [c_ulong; 2],
    pub nlink: c_uint,
    pub kind: c_int,
    pub mtime: i64,
    pub linklen: usize,
    pub ohdr_size: u64,
    pub ohdr_free: u64,
    pub ohdr_nmesgs: c_uint,
    pub ohdr_nchunks: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct GetObjInfo {
    pub loc: Loc,
    pub follow: bool,
    pub stat: *mut GroupStat,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct VlenBufSize {
    pub type_id: Hid,
    pub space_id: Hid,
    pub size: *mut u64,
}

type F1 = Option<unsafe extern "C" fn(Void) -> Herr>;
type Optional = Option<unsafe extern "C" fn(Void, *mut OptionalArgs, Hid, Req) -> Herr>;
type LocOptional = Option<unsafe extern "C" fn(Void, *const Loc, *mut OptionalArgs, Hid, Req) -> Herr>;
type Close = Option<unsafe extern "C" fn(Void, Hid, Req) -> Herr>;

#[repr(C)]
pub struct InfoClass {
    pub size: usize,
    pub copy: Option<unsafe extern "C" fn(*const c_void) -> Void>,
    pub cmp: Option<unsafe extern "C" fn(*mut c_int, *const c_void, *const c_void) -> Herr>,
    pub free: F1,
    pub to_str: Option<unsafe extern "C" fn(*const c_void, *mut *mut c_char) -> Herr>,
    pub from_str: Option<unsafe extern "C" fn(*const c_char, *mut Void) -> Herr>,
}

#[repr(C)]
pub struct WrapClass {
    pub get_object: Option<unsafe extern "C" fn(*const c_void) -> Void>,
    pub get_wrap_ctx: Option<unsafe extern "C" fn(*const c_void, *mut Void) -> Herr>,
    pub wrap_object: Option<unsafe extern "C" fn(Void, c_int, Void) -> Void>,
    pub unwrap_object: Option<unsafe extern "C" fn(Void) -> Void>,
    pub free_wrap_ctx: F1,
}

#[repr(C)]
pub struct AttrClass {
    pub create:
        Option<unsafe extern "C" fn(Void, *const Loc, *const c_char, Hid, Hid, Hid, Hid, Hid, Req) -> Void>,
    pub open: Option<unsafe extern "C" fn(Void, *const Loc, *const c_char, Hid, Hid, Req) -> Void>,
    pub read: Option<unsafe extern "C" fn(Void, Hid, Void, Hid, Req) -> Herr>,
    pub write: Option<unsafe extern "C" fn(Void, Hid, *const c_void, Hid, Req) -> Herr>,
    pub get: Option<unsafe extern "C" fn(Void, *mut AttrGet, Hid, Req) -> Herr>,
    pub specific: Option<unsafe extern "C" fn(Void, *const Loc, *mut AttrSpecific, Hid, Req) -> Herr>,
    pub optional: Optional,
    pub close: Close,
}

pub type Transfer =
    unsafe extern "C" fn(usize, *mut Void, *const Hid, *const Hid, *const Hid, Hid, *const Void, Req) -> Herr;

#[repr(C)]
pub struct DatasetClass {
    pub create: Option<
        unsafe extern "C" fn(Void, *const Loc, *const c_char, Hid, Hid, Hid, Hid, Hid, Hid, Req) -> Void,
    >,
    pub open: Option<unsafe extern "C" fn(Void, *const Loc, *const c_char, Hid, Hid, Req) -> Void>,
    pub read: Option<Transfer>,
    pub write: Option<Transfer>,
    pub get: Option<unsafe extern "C" fn(Void, *mut DatasetGet, Hid, Req) -> Herr>,
    pub specific: Option<unsafe extern "C" fn(Void, *mut DatasetSpecific, Hid, Req) -> Herr>,
    pub optional: Optional,
    pub close: Close,
}

#[repr(C)]
pub struct DatatypeClass {
    pub commit:
        Option<unsafe extern "C" fn(Void, *const Loc, *const c_char, Hid, Hid, Hid, Hid, Hid, Req) -> Void>,
    pub open: Option<unsafe extern "C" fn(Void, *const Loc, *const c_char, Hid, Hid, Req) -> Void>,
    pub get: Option<unsafe extern "C" fn(Void, *mut DatatypeGet, Hid, Req) -> Herr>,
    pub specific: Option<unsafe extern "C" fn(Void, *mut IdSpecific, Hid, Req) -> Herr>,
    pub optional: Optional,
    pub close: Close,
}

#[repr(C)]
pub struct FileClass {
    pub create: Option<unsafe extern "C" fn(*const c_char, c_uint, Hid, Hid, Hid, Req) -> Void>,
    pub open: Option<unsafe extern "C" fn(*const c_char, c_uint, Hid, Hid, Req) -> Void>,
    pub get: Option<unsafe extern "C" fn(Void, *mut FileGet, Hid, Req) -> Herr>,
    pub specific: Option<unsafe extern "C" fn(Void, *mut FileSpecific, Hid, Req) -> Herr>,
    pub optional: Optional,
    pub close: Close,
}

#[repr(C)]
pub struct GroupClass {
    pub create:
        Option<unsafe extern "C" fn(Void, *const Loc, *const c_char, Hid, Hid, Hid, Hid, Req) -> Void>,
    pub open: Option<unsafe extern "C" fn(Void, *const Loc, *const c_char, Hid, Hid, Req) -> Void>,
    pub get: Option<unsafe extern "C" fn(Void, *mut GroupGet, Hid, Req) -> Herr>,
    pub specific: Option<unsafe extern "C" fn(Void, *mut GroupSpecific, Hid, Req) -> Herr>,
    pub optional: Optional,
    pub close: Close,
}

pub type LinkTwo = unsafe extern "C" fn(Void, *const Loc, Void, *const Loc, Hid, Hid, Hid, Req) -> Herr;

#[repr(C)]
pub struct LinkClass {
    pub create: Option<unsafe extern "C" fn(*mut LinkCreate, Void, *const Loc, Hid, Hid, Hid, Req) -> Herr>,
    pub copy: Option<LinkTwo>,
    pub relocate: Option<LinkTwo>,
    pub get: Option<unsafe extern "C" fn(Void, *const Loc, *mut LinkGet, Hid, Req) -> Herr>,
    pub specific: Option<unsafe extern "C" fn(Void, *const Loc, *mut LinkSpecific, Hid, Req) -> Herr>,
    pub optional: LocOptional,
}

#[repr(C)]
pub struct ObjectClass {
    pub open: Option<unsafe extern "C" fn(Void, *const Loc, *mut c_int, Hid, Req) -> Void>,
    pub copy: Option<
        unsafe extern "C" fn(
            Void,
            *const Loc,
            *const c_char,
            Void,
            *const Loc,
            *const c_char,
            Hid,
            Hid,
            Hid,
            Req,
        ) -> Herr,
    >,
    pub get: Option<unsafe extern "C" fn(Void, *const Loc, *mut ObjectGet, Hid, Req) -> Herr>,
    pub specific: Option<unsafe extern "C" fn(Void, *const Loc, *mut ObjectSpecific, Hid, Req) -> Herr>,
    pub optional: LocOptional,
}

#[repr(C)]
pub struct IntrospectClass {
    pub get_conn_cls: Option<unsafe extern "C" fn(Void, c_int, *mut *const Class) -> Herr>,
    pub get_cap_flags: Option<unsafe extern "C" fn(*const c_void, *mut u64) -> Herr>,
    pub opt_query: Option<unsafe extern "C" fn(Void, c_int, c_int, *mut u64) -> Herr>,
}

#[repr(C)]
pub struct RequestClass {
    pub none: [usize; 6],
}

#[repr(C)]
pub struct BlobClass {
    pub put: Option<unsafe extern "C" fn(Void, *const c_void, usize, Void, Void) -> Herr>,
    pub get: Option<unsafe extern "C" fn(Void, *const c_void, Void, usize, Void) -> Herr>,
    pub specific: Option<unsafe extern "C" fn(Void, Void, *mut BlobSpecific) -> Herr>,
    pub optional: Option<unsafe extern "C" fn(Void, Void, *mut OptionalArgs) -> Herr>,
}

#[repr(C)]
pub struct TokenClass {
    pub cmp: Option<unsafe extern "C" fn(Void, *const Token, *const Token, *mut c_int) -> Herr>,
    pub to_str: Option<unsafe extern "C" fn(Void, c_int, *const Token, *mut *mut c_char) -> Herr>,
    pub from_str: Option<unsafe extern "C" fn(Void, c_int, *const c_char, *mut Token) -> Herr>,
}

#[repr(C)]
pub struct Class {
    pub version: c_uint,
    pub value: c_int,
    pub name: *const c_char,
    pub conn_version: c_uint,
    pub cap_flags: u64,
    pub initialize: Option<unsafe extern "C" fn(Hid) -> Herr>,
    pub terminate: Option<unsafe extern "C" fn() -> Herr>,
    pub info: InfoClass,
    pub wrap: WrapClass,
    pub attr: AttrClass,
    pub dataset: DatasetClass,
    pub datatype: DatatypeClass,
    pub file: FileClass,
    pub group: GroupClass,
    pub link: LinkClass,
    pub object: ObjectClass,
    pub introspect: IntrospectClass,
    pub request: RequestClass,
    pub blob: BlobClass,
    pub token: TokenClass,
    pub optional: Optional,
}

// SAFETY: a class is never changed after it is made; its name points to static text.
unsafe impl Sync for Class {}
// SAFETY: as above.
unsafe impl Send for Class {}

const _: () = {
    assert!(size_of::<Class>() == 632);
    assert!(std::mem::offset_of!(Class, attr) == 136);
    assert!(std::mem::offset_of!(Class, file) == 312);
    assert!(std::mem::offset_of!(Class, introspect) == 496);
    assert!(std::mem::offset_of!(Class, token) == 600);
    assert!(std::mem::offset_of!(Class, optional) == 624);
    assert!(size_of::<Loc>() == 40);
    assert!(size_of::<ObjectInfo>() == 72);
    assert!(size_of::<LinkInfo>() == 40);
};
