//! How an ask ended.

/// The end of an ask, and of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Done.
    Ok,
    /// There is no such object, container or variable.
    NotFound,
    /// An object of that name was there already; it was left as it is.
    AlreadyExists,
    /// The object ends before the bytes that were asked for.
    ShortRead,
    /// Somebody else did something that excludes this.
    Conflict,
    /// No right, or the wrong one.
    Denied,
    /// The request, a key or an argument is wrong.
    Invalid,
    /// The server does not do this.
    Unsupported,
    /// The store cannot be written to.
    ReadOnly,
    /// The medium or a quota is full.
    NoSpace,
    /// Stored bytes are not what was written.
    Corrupt,
    /// The medium failed; whether it was done is not known.
    Io,
    /// The server has too much to do: nothing was done, ask again.
    Busy,
    /// The time that the client allowed is over.
    Deadline,
    /// The lease under which it was to be done has ended: nothing was done.
    LeaseExpired,
}

impl Status {
    /// All of them; the place is the number in messages.
    pub const ALL: [Status; 15] = [
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
    ];

    /// Its number in messages.
    pub fn code(self) -> u64 {
        self as u64
    }

    /// The status of this number.
    pub fn of_code(code: u64) -> Option<Status> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// Its name, as in the header `Drystone-Status` of a reply.
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
        }
    }

    /// The status of this name.
    pub fn named(name: &str) -> Option<Status> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// The HTTP status of a reply that is this alone.
    pub fn http(self) -> u16 {
        match self {
            Status::Ok => 200,
            Status::NotFound => 404,
            Status::AlreadyExists => 412,
            Status::ShortRead => 416,
            Status::Conflict | Status::LeaseExpired => 409,
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
