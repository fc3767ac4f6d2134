//! The result of a request.

/// The result of a request, and of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Success.
    Ok,
    /// The object, container or variable does not exist.
    NotFound,
    /// An object of that name already exists; it is unchanged.
    AlreadyExists,
    /// The object ends before the requested bytes.
    ShortRead,
    /// An action of another process makes this impossible.
    Conflict,
    /// Permission denied, or an invalid token.
    Denied,
    /// The request, a key or an argument is wrong.
    Invalid,
    /// The server does not support this.
    Unsupported,
    /// The store is read-only.
    ReadOnly,
    /// The storage or a quota is full.
    NoSpace,
    /// Stored bytes are corrupt.
    Corrupt,
    /// An I/O error; it is unknown whether the request was executed.
    Io,
    /// The server is overloaded: nothing was done; ask again.
    Busy,
    /// The client's time limit has passed.
    Deadline,
    /// The lease of the request has expired: nothing was done.
    LeaseExpired,
    /// Blocks lie in a tier of another node, and are not home yet.
    NotYetHome,
}

impl Status {
    /// All statuses; the index is the number in messages.
    pub const ALL: [Status; 16] = [
        Status::Ok,
        Status::NotFound,
        Status::AlreadyExists,
        Status::ShortRead,
        Status::Conflict,
        Status::Denied,
        Status::Invalid,
        Status::Unsupported,
        Status::ReadOnly,
        Status::NoSpace,
        Status::Corrupt,
        Status::Io,
        Status::Busy,
        Status::Deadline,
        Status::LeaseExpired,
        Status::NotYetHome,
    ];

    /// Its number in messages.
    pub fn code(self) -> u64 {
        self as u64
    }

    /// The status with this number.
    pub fn of_code(code: u64) -> Option<Status> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Its name in a reply's header `Drystone-Status`.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::NotFound => "not-found",
            Status::AlreadyExists => "already-exists",
            Status::ShortRead => "short-read",
            Status::Conflict => "conflict",
            Status::Denied => "denied",
            Status::Invalid => "invalid",
            Status::Unsupported => "unsupported",
            Status::ReadOnly => "read-only",
            Status::NoSpace => "no-space",
            Status::Corrupt => "corrupt",
            Status::Io => "io",
            Status::Busy => "busy",
            Status::Deadline => "deadline",
            Status::LeaseExpired => "lease-expired",
            Status::NotYetHome => "not-yet-home",
        }
    }

    /// The status with this name.
    pub fn named(name: &str) -> Option<Status> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// The HTTP status of a reply that consists of this status only.
    pub fn http(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::NotFound => 404,
            Status::AlreadyExists => 412,
            Status::ShortRead => 416,
            Status::Conflict | Status::LeaseExpired | Status::NotYetHome => 409,
            Status::Denied => 403,
            Status::Invalid => 400,
            Status::Unsupported => 501,
            Status::ReadOnly => 405,
            Status::NoSpace => 507,
            Status::Corrupt | Status::Io => 500,
            Status::Busy => 429,
            Status::Deadline => 504,
        }
    }
}
