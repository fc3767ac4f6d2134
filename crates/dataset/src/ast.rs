//! The text as a tree, with the position of every node. The tree represents what was written; later steps determine
//! what it means.
//!
//! Depth is bounded by the parser ([`crate::MAX_DEPTH`] levels, [`crate::MAX_OPERATORS`] operators in an
//! expression), so that every walk over a tree may recurse.

use crate::span::Span;

/// A name and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name itself.
    pub text: Box<str>,
    /// Its position.
    pub span: Span,
}

/// A whole text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The declarations in their order.
    pub items: Vec<Item>,
}

/// One declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `const n = 64`
    Const(ConstDecl),
    /// `param px, py = 1`
    Param(ParamDecl),
    /// `type P struct { … }`
    Type(TypeDecl),
    /// `dataset { … }`
    Dataset(DatasetDecl),
    /// `fragment tile(r) { … }`
    Fragment(FragmentDecl),
}

/// A named integer.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstDecl {
    /// Its name.
    pub name: Name,
    /// Its value.
    pub value: Expr,
}

/// Integers that get their values when a fragment is instantiated.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamDecl {
    /// Their names.
    pub names: Vec<Name>,
    /// The default value of parameters that are given none.
    pub default: Option<Expr>,
}

/// A named type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeDecl {
    /// Its name.
    pub name: Name,
    /// The type that it names.
    pub ty: TypeExpr,
}

/// A type as written.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeExpr {
    /// The kind of the type.
    pub kind: TypeKind,
    /// Its position.
    pub span: Span,
}

/// The kinds of types.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// A primitive type or a declared one.
    Named(Name),
    /// `bytes(n)`
    Bytes(Box<Expr>),
    /// `[3, 3]float64 col`
    Array {
        /// The extents, slowest first unless the order says otherwise.
        extents: Vec<Expr>,
        /// The type of an element.
        element: Box<TypeExpr>,
        /// The order of the elements; row by row if none is written.
        order: Option<OrderExpr>,
    },
    /// `struct { … }`
    Struct(StructExpr),
}

/// A struct type.
#[derive(Clone, Debug, PartialEq)]
pub struct StructExpr {
    /// Whether fields are aligned only where that is written.
    pub packed: bool,
    /// The members in their order.
    pub members: Vec<Member>,
    /// The alignment of the whole struct, if written.
    pub align: Option<Expr>,
}

/// One line of a struct.
#[derive(Clone, Debug, PartialEq)]
pub enum Member {
    /// `x, y float32 align(8)`
    Fields {
        /// The names of the fields.
        names: Vec<Name>,
        /// Their type.
        ty: TypeExpr,
        /// Their alignment, if written.
        align: Option<Expr>,
    },
    /// `pad 4`: unused bytes.
    Pad(Expr),
}

/// An element order as written.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderExpr {
    /// The order.
    pub kind: OrderKind,
    /// Its position.
    pub span: Span,
}

/// The element orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// The last dimension is contiguous, as in C.
    Row,
    /// The first dimension is contiguous, as in Fortran.
    Col,
    /// The dimensions from the slowest to the contiguous one.
    Perm(Vec<i64>),
    /// Along the Hilbert curve.
    Hilbert,
    /// Along the Morton (Z) curve.
    Morton,
}

/// A dataset: variables that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetDecl {
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// The word `dataset` and the name.
    pub span: Span,
    /// The variables in their order.
    pub vars: Vec<VarDecl>,
}

/// A variable of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct VarDecl {
    /// Its name.
    pub name: Name,
    /// Its extents; empty for a scalar.
    pub extents: Vec<Extent>,
    /// The type of an element.
    pub ty: TypeExpr,
    /// The preferred order of the elements.
    pub order: Option<OrderExpr>,
    /// `steps`: one array per output time.
    pub steps: Option<Span>,
    /// `dims (z, y, x)`
    pub dims: Option<(Vec<Name>, Span)>,
    /// `fill -1`
    pub fill: Option<FillExpr>,
    /// `transform "zstd:3"`
    pub transform: Option<Text>,
    /// `access "plane:x 90%"`; [`Access`](crate::Access) parses it.
    pub access: Option<Text>,
}

/// One extent of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Extent {
    /// This many elements.
    Fixed(Expr),
    /// `*`: as many elements as have been written.
    Growable(Span),
}

/// A text between double quotes; there are no escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text between the quotes.
    pub text: Box<str>,
    /// Its position, quotes included.
    pub span: Span,
}

/// A fill value as written.
#[derive(Clone, Debug, PartialEq)]
pub struct FillExpr {
    /// The value.
    pub value: FillKind,
    /// Its position.
    pub span: Span,
}

/// The kinds of fill values.
#[derive(Clone, Debug, PartialEq)]
pub enum FillKind {
    /// An integer; `-9223372036854775808` fits.
    Int(i128),
    /// A fraction, `nan` or `inf`.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A text, for `bytes(n)`.
    Text(Box<str>),
}

/// A fragment: a part of a dataset with its own layout.
#[derive(Clone, Debug, PartialEq)]
pub struct FragmentDecl {
    /// Its name.
    pub name: Name,
    /// The parameters that distinguish its instances.
    pub params: Vec<Name>,
    /// `default` or `replica(k)`, as often as written.
    pub roles: Vec<RoleExpr>,
    /// Its content, in memory order.
    pub items: Vec<FragmentItem>,
}

/// The purpose of a stored fragment.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleExpr {
    /// The number of the replica; `None` for `default`.
    pub replica: Option<Expr>,
    /// Its position.
    pub span: Span,
}

/// One line of a fragment.
#[derive(Clone, Debug, PartialEq)]
pub enum FragmentItem {
    /// A variable.
    Var(Box<FragmentVarDecl>),
    /// `pad 512`: unused bytes.
    Pad(Expr),
    /// `align 4096`: unused bytes, up to the next multiple.
    Align(Expr),
}

/// A variable of a fragment.
#[derive(Clone, Debug, PartialEq)]
pub struct FragmentVarDecl {
    /// `for k in 0..3`
    pub repeat: Option<Repeat>,
    /// Its name.
    pub name: Name,
    /// Its indices and their extents.
    pub binders: Vec<Binder>,
    /// The order of its elements.
    pub order: Option<OrderExpr>,
    /// Its alignment, if written.
    pub align: Option<Expr>,
    /// The part of the dataset that it shows.
    pub path: Path,
}

/// `for k in from..to`: once for each value from `from` up to, but without, `to`.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// The name of the counter.
    pub name: Name,
    /// The first value.
    pub from: Expr,
    /// One past the last value.
    pub to: Expr,
}

/// `i:1000`: an index that runs from 0 to 999.
#[derive(Clone, Debug, PartialEq)]
pub struct Binder {
    /// The name of the index.
    pub name: Name,
    /// The number of its values.
    pub extent: Expr,
}

/// `cell[i, j].vel[2]` or `T[i].{temp, pres}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The dataset variable, then fields.
    pub steps: Vec<Step>,
    /// The selected fields of a struct.
    pub select: Option<Vec<Name>>,
    /// Its position.
    pub span: Span,
}

/// One name of a path with its indices.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// A variable or a field.
    pub name: Name,
    /// One index per dimension; empty if there are no brackets.
    pub index: Vec<IndexExpr>,
    /// The name and the brackets.
    pub span: Span,
}

/// One index position: `(a·x + b) / (c·x + d) mod n`.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexExpr {
    /// The part before `mod`.
    pub value: Expr,
    /// The period.
    pub modulus: Option<Expr>,
    /// Its position.
    pub span: Span,
}

/// Integer arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The operation.
    pub kind: ExprKind,
    /// Its position.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A literal.
    Int(i64),
    /// A constant, a parameter or an index.
    Name(Box<str>),
    /// `-x`
    Neg(Box<Expr>),
    /// `(x)` and `+x`
    Group(Box<Expr>),
    /// `x + y`
    Binary(Op, Box<Expr>, Box<Expr>),
    /// `min(x, y, …)`
    Min(Vec<Expr>),
    /// `max(x, y, …)`
    Max(Vec<Expr>),
}

/// The operators between two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`, towards zero as in C
    Div,
    /// `%`, with the sign of the left side as in C
    Rem,
}
