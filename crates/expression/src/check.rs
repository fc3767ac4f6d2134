//! Types a tree: the type of each name, the common type of operands, and the conversions that requires.
//!
//! docs/decisions/102-expressions.md gives the rules. A conversion that could lose a value is an error that
//! names the cast.

use std::collections::HashMap;

use crate::constant::{self, Scalar};
use crate::error::{Error, Kind};
use crate::name::Name;
use crate::program::{Program, Step, StepId};
use crate::tree::{Binary, Node, NodeId, Tree, Unary};
use crate::types::Type;
use drystone_suggest::did_you_mean;

/// The meaning of a name, as the container answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Values of a type.
    Type(Type),
    /// A thing that no expression accepts. The reason completes "`name` ...", as in "holds texts".
    Unfit(String),
    /// Nothing has this name; these names exist.
    Unknown(Vec<String>),
}

/// A typed node: a step, or a constant that has not met a type yet.
#[derive(Debug, Clone, Copy)]
enum Value {
    Weak(Scalar),
    Step(StepId),
}

impl Tree {
    /// Types every node. `resolve` is called once per distinct variable and member.
    pub fn check(&self, mut resolve: impl FnMut(&Name) -> Answer) -> Result<Program, Error> {
        let mut checker = Checker {
            tree: self,
            program: Program { inputs: Vec::new(), steps: Vec::new(), types: Vec::new(), result: 0 },
            values: Vec::with_capacity(self.nodes().len()),
            casts: HashMap::new(),
        };
        // Names of dimensions and functions come before these nodes, and have no values: so these are refused first.
        for (n, node) in self.nodes().iter().enumerate() {
            if matches!(node, Node::Stencil(..) | Node::Over(..) | Node::Call(..)) {
                return Err(checker.located(of_fields(), NodeId(n as u16)));
            }
        }
        for (n, &node) in self.nodes().iter().enumerate() {
            let id = NodeId(n as u16);
            let value = checker.node(node, &mut resolve).map_err(|error| checker.located(error, id))?;
            checker.values.push(value);
        }
        checker.program.result = match checker.values.last() {
            Some(&Value::Weak(constant)) => {
                checker.program.push(Step::Constant(constant), constant.default_type())
            }
            Some(&Value::Step(step)) => step,
            None => checker.program.push(Step::Constant(Scalar::Bool(false)), Type::Bool),
        };
        Ok(checker.program)
    }
}

/// The error for a node that has a value in fields only.
fn of_fields() -> Error {
    let help = "give it a name: c.derive(name, text) makes a variable of it";
    type_error("neighbours, reductions and registered functions are part of derived variables only")
        .help(help)
}

struct Checker<'t> {
    tree: &'t Tree,
    program: Program,
    values: Vec<Value>,
    casts: HashMap<(StepId, Type), StepId>,
}

impl Checker<'_> {
    /// Adds the position in the text to an error, or the node's text to the message if there was no text.
    fn located(&self, error: Error, id: NodeId) -> Error {
        let found = format!("`{}`: {}", self.tree.excerpt(id), error.found);
        let error = Error { found, ..error };
        match self.tree.place(id) {
            Some(at) => error.at(at),
            None => error,
        }
    }

    fn node(&mut self, node: Node, resolve: &mut impl FnMut(&Name) -> Answer) -> Result<Value, Error> {
        match node {
            Node::Name(n) => self.name(n, resolve),
            Node::Bool(value) => Ok(self.push(Step::Constant(Scalar::Bool(value)), Type::Bool)),
            Node::Integer(value) => Ok(Value::Weak(Scalar::Integer(value))),
            Node::Float(bits) => Ok(Value::Weak(Scalar::Float(f64::from_bits(bits)))),
            Node::Text(_) => {
                Err(type_error("texts are compared in queries and in questions to catalogues only"))
            }
            Node::Reduce(..) => Err(type_error("reductions are part of questions to catalogues only")),
            Node::Stencil(..) | Node::Over(..) | Node::Call(..) => {
                let help = "give it a name: c.derive(name, text) makes a variable of it";
                let found =
                    "neighbours, reductions and registered functions are part of derived variables only";
                Err(type_error(found).help(help))
            }
            Node::List(..) => {
                let help = "take a component(v, 0), or its norm(v)";
                Err(type_error("a vector is not a number").help(help))
            }
            Node::Unary(op, a) => self.unary(op, self.values[a.index()]),
            Node::Binary(op, a, b) => self.binary(op, self.values[a.index()], self.values[b.index()]),
            Node::Where(c, a, b) => {
                let [c, a, b] = [c, a, b].map(|id| self.values[id.index()]);
                self.choose(c, a, b)
            }
        }
    }

    fn push(&mut self, step: Step, dtype: Type) -> Value {
        Value::Step(self.program.push(step, dtype))
    }

    fn name(&mut self, n: u16, resolve: &mut impl FnMut(&Name) -> Answer) -> Result<Value, Error> {
        let name = &self.tree.names()[usize::from(n)];
        match resolve(name) {
            Answer::Type(dtype) => {
                self.program.inputs.push((name.clone(), dtype));
                let input = (self.program.inputs.len() - 1) as u16;
                Ok(self.push(Step::Input(input), dtype))
            }
            Answer::Unfit(reason) => Err(type_error(reason)),
            Answer::Unknown(known) => {
                let error = Error::new(Kind::Unknown, "there is no such variable or member");
                let group = format!("{}/", name.path());
                Err(match known.iter().find(|k| k.starts_with(&group)) {
                    Some(member) => error
                        .help(format!("`/` divides; a name in a group stands between backticks: `{member}`")),
                    None => {
                        let whole =
                            [name.path()].into_iter().chain(name.members().iter().map(String::as_str));
                        let whole = whole.collect::<Vec<_>>().join(".");
                        error.maybe_help(did_you_mean(&whole, known.iter().map(String::as_str)))
                    }
                })
            }
        }
    }

    /// The type of a value, for messages.
    fn type_name(&self, value: Value) -> String {
        match value {
            Value::Weak(constant) => format!("the constant {constant}"),
            Value::Step(step) => self.program.type_of(step).to_string(),
        }
    }

    /// A value as a step; a constant gets its default type.
    fn step(&mut self, value: Value) -> StepId {
        match value {
            Value::Step(step) => step,
            Value::Weak(constant) => self.program.push(Step::Constant(constant), constant.default_type()),
        }
    }

    fn cast(&mut self, step: StepId, to: Type) -> StepId {
        if self.program.type_of(step) == to {
            return step;
        }
        if let Some(&known) = self.casts.get(&(step, to)) {
            return known;
        }
        let cast = self.program.push(Step::Unary(Unary::Cast(to), step), to);
        self.casts.insert((step, to), cast);
        cast
    }

    /// A value as a type that holds all of its values, or that a constant fits in.
    fn convert(&mut self, value: Value, to: Type) -> Result<StepId, Error> {
        match value {
            Value::Step(step) => Ok(self.cast(step, to)),
            Value::Weak(constant) => {
                let constant = constant.fit(to)?;
                Ok(self.program.push(Step::Constant(constant), to))
            }
        }
    }

    fn unary(&mut self, op: Unary, value: Value) -> Result<Value, Error> {
        use Unary::*;
        if let Value::Weak(constant) = value
            && let Some(result) = constant::unary(op, constant)
        {
            return result.map(Value::Weak);
        }
        if let (Cast(to), Value::Weak(constant @ Scalar::Integer(_))) = (op, value)
            && to.is_integer()
        {
            return Ok(self.push(Step::Constant(constant.fit(to)?), to));
        }
        let step = self.step(value);
        let dtype = self.program.type_of(step);
        let (ok, result, help) = match op {
            Cast(to) => {
                return Ok(if to == dtype { Value::Step(step) } else { Value::Step(self.cast(step, to)) });
            }
            Not => (
                dtype == Type::Bool,
                dtype,
                "`~` takes a condition; `invert(n)` flips the bits of an integer",
            ),
            Invert => {
                (dtype.is_integer(), dtype, "`invert` takes an integer; `~` is the complement of a condition")
            }
            IsNan | IsInf | IsFinite => (dtype != Type::Bool, Type::Bool, "it takes numbers"),
            Neg | Abs | Sign => (dtype != Type::Bool, dtype, "cast the truth value to a number: i1(...)"),
            Floor | Ceil | Trunc | Round if dtype.is_integer() => return Ok(Value::Step(step)),
            Floor | Ceil | Trunc | Round => (dtype.is_float(), dtype, "it takes numbers"),
            _ => (dtype.is_float(), dtype, "it takes floats: cast by f8(...), or by f4(...)"),
        };
        if !ok {
            return Err(type_error(format!("the operand is {}", an(dtype))).help(help));
        }
        Ok(self.push(Step::Unary(op, step), result))
    }

    fn binary(&mut self, op: Binary, a: Value, b: Value) -> Result<Value, Error> {
        use Binary::*;
        if let (Value::Weak(x), Value::Weak(y)) = (a, b)
            && let Some(result) = constant::binary(op, x, y)
        {
            return match result? {
                Scalar::Bool(value) => Ok(self.push(Step::Constant(Scalar::Bool(value)), Type::Bool)),
                constant => Ok(Value::Weak(constant)),
            };
        }
        match op {
            Or | Xor | And => self.bitwise(op, a, b),
            Shl | Shr => {
                let common = self.common(a, b)?;
                if !common.is_integer() {
                    return Err(self.mismatch(a, b).help("shifts take integers"));
                }
                self.same(op, a, b, common, common)
            }
            Eq | Ne | Lt | Le | Gt | Ge => self.compare(op, a, b),
            Pow => self.power(a, b),
            Div => {
                let common = self.common(a, b)?;
                let common = match common {
                    Type::I8 | Type::U8 => {
                        let help = "write `//` for the integer quotient, or cast both by f8(...)";
                        return Err(type_error(format!(
                            "the quotient of 64-bit integers ({common}) is not exact as a float"
                        ))
                        .help(help));
                    }
                    integer if integer.is_integer() => Type::F8,
                    float => float,
                };
                self.same(op, a, b, common, common)
            }
            Atan2 | Hypot => {
                let common = self.common(a, b)?;
                if !common.is_float() {
                    return Err(self.mismatch(a, b).help("it takes floats: cast by f8(...), or by f4(...)"));
                }
                self.same(op, a, b, common, common)
            }
            Add | Sub | Mul | FloorDiv | Mod | Min | Max => {
                let common = self.common(a, b)?;
                self.same(op, a, b, common, common)
            }
        }
    }

    fn same(&mut self, op: Binary, a: Value, b: Value, operands: Type, dtype: Type) -> Result<Value, Error> {
        let a = self.convert(a, operands)?;
        let b = self.convert(b, operands)?;
        Ok(self.push(Step::Binary(op, a, b), dtype))
    }

    fn strong(&self, value: Value) -> Option<Type> {
        match value {
            Value::Step(step) => Some(self.program.type_of(step)),
            Value::Weak(_) => None,
        }
    }

    /// The common type in which two numbers are computed.
    fn common(&self, a: Value, b: Value) -> Result<Type, Error> {
        let found = match (a, b, self.strong(a), self.strong(b)) {
            (_, _, Some(x), Some(y)) if x != Type::Bool => x.promote(y),
            (_, Value::Weak(constant), Some(dtype), _) | (Value::Weak(constant), _, _, Some(dtype)) => {
                match (constant, dtype) {
                    (_, Type::Bool) | (Scalar::Bool(_), _) => None,
                    (Scalar::Float(_), Type::I8 | Type::U8) => {
                        let error =
                            type_error(format!("a 64-bit integer ({dtype}) meets the float {constant}"));
                        return Err(error.help("write an integer constant, or cast the integer by f8(...)"));
                    }
                    (Scalar::Float(_), dtype) if dtype.is_integer() => Some(Type::F8),
                    (_, dtype) => Some(dtype),
                }
            }
            (Value::Weak(x), Value::Weak(y), ..) => match (x, y) {
                (Scalar::Integer(_), Scalar::Integer(_)) if x.fits(Type::I8) && y.fits(Type::I8) => {
                    Some(Type::I8)
                }
                (Scalar::Integer(_), Scalar::Integer(_)) => Some(Type::U8),
                _ => Some(Type::F8),
            },
            _ => None,
        };
        found.ok_or_else(|| self.mismatch(a, b))
    }

    /// The error for two operands without a common type; it names the cast that gives one.
    fn mismatch(&self, a: Value, b: Value) -> Error {
        let error = type_error(format!("the operands are {} and {}", self.type_name(a), self.type_name(b)));
        let types = [self.strong(a), self.strong(b)];
        if types.contains(&Some(Type::Bool)) {
            if types == [Some(Type::Bool); 2] {
                return error.help("truth values are not numbers: cast by i1(...)");
            }
            return error.help(
                "a truth value is not a number: use it as a condition (`m`, `~m`) or cast it by i1(...)",
            );
        }
        match types {
            [Some(x), Some(y)] if x.is_float() || y.is_float() => error.help(
                "a 64-bit integer is not exact as a float: cast it by f8(...), or the float by i8(...)",
            ),
            [Some(_), Some(_)] => {
                error.help("no integer type holds both: cast one side, by i8(...) or u8(...)")
            }
            _ => error,
        }
    }

    fn bitwise(&mut self, op: Binary, a: Value, b: Value) -> Result<Value, Error> {
        let types = [self.strong(a), self.strong(b)];
        if types == [Some(Type::Bool); 2] {
            return self.same(op, a, b, Type::Bool, Type::Bool);
        }
        let error = |help: &str| Err(self.mismatch(a, b).help(help));
        let brackets =
            "comparisons bind tighter than `&`, `^` and `|`: write `(flags & 4) == 4`, `p > 3 & q < 1`";
        if types.contains(&Some(Type::Bool)) {
            return error(brackets);
        }
        let float = |v: Value| match v {
            Value::Weak(constant) => matches!(constant, Scalar::Float(_)),
            Value::Step(step) => self.program.type_of(step).is_float(),
        };
        if float(a) || float(b) {
            return error(match op {
                Binary::Xor => "`^` is the exclusive or; `**` raises to a power",
                _ => "`&` and `|` take conditions or integers; compare the floats",
            });
        }
        let common = self.common(a, b)?;
        self.same(op, a, b, common, common)
    }

    fn compare(&mut self, op: Binary, a: Value, b: Value) -> Result<Value, Error> {
        if self.strong(a) == Some(Type::Bool) && self.strong(b) == Some(Type::Bool) {
            if matches!(op, Binary::Eq | Binary::Ne) {
                return self.same(op, a, b, Type::Bool, Type::Bool);
            }
            return Err(self.mismatch(a, b).help("truth values have no order"));
        }
        let integer = |v: Value| match v {
            Value::Weak(constant) => matches!(constant, Scalar::Integer(_)),
            Value::Step(step) => self.program.type_of(step).is_integer(),
        };
        if integer(a) && integer(b) {
            // Integers compare exactly, whatever their types. Those without a common type are compared as i8
            // beside u8.
            let fits = |v: Value, dtype: Type| match v {
                Value::Weak(constant) => constant.fits(dtype),
                Value::Step(step) => self.program.type_of(step).promote(dtype) == Some(dtype),
            };
            let common = self.common(a, b).ok();
            if let Some(dtype) = common.filter(|&t| fits(a, t) && fits(b, t)) {
                return self.same(op, a, b, dtype, Type::Bool);
            }
            let side = |v: Value| if fits(v, Type::I8) { Type::I8 } else { Type::U8 };
            let (x, y) = (side(a), side(b));
            let (x, y) = (self.convert(a, x)?, self.convert(b, y)?);
            return Ok(self.push(Step::Binary(op, x, y), Type::Bool));
        }
        let common = self.common(a, b)?;
        self.same(op, a, b, common, Type::Bool)
    }

    fn power(&mut self, a: Value, b: Value) -> Result<Value, Error> {
        let common = self.common(a, b)?;
        if common.is_integer() {
            let Value::Weak(exponent @ Scalar::Integer(n)) = b else {
                let help = "an integer is raised to a constant; cast both by f8(...)";
                return Err(self.mismatch(a, b).help(help));
            };
            if n < 0 {
                let error = type_error(format!("an integer ({common}) is raised to the negative power {n}"));
                return Err(error.help("cast the base by f8(...)"));
            }
            let base = self.convert(a, common)?;
            let exponent = exponent.fit(common)?;
            let exponent = self.program.push(Step::Constant(exponent), common);
            return Ok(self.push(Step::Binary(Binary::Pow, base, exponent), common));
        }
        let base = self.convert(a, common)?;
        if let Value::Weak(exponent) = b {
            let exponent = exponent.fit(common)?;
            if let Scalar::Float(e) = exponent {
                if e == 1.0 {
                    return Ok(Value::Step(base));
                } else if e == 2.0 {
                    return Ok(self.push(Step::Binary(Binary::Mul, base, base), common));
                } else if e == 0.5 {
                    return Ok(self.push(Step::Unary(Unary::Sqrt, base), common));
                } else if e == -1.0 {
                    let one = self.program.push(Step::Constant(Scalar::Float(1.0)), common);
                    return Ok(self.push(Step::Binary(Binary::Div, one, base), common));
                }
            }
        }
        let exponent = self.convert(b, common)?;
        Ok(self.push(Step::Binary(Binary::Pow, base, exponent), common))
    }

    fn choose(&mut self, c: Value, a: Value, b: Value) -> Result<Value, Error> {
        let Value::Step(condition) = c else {
            return Err(type_error("the condition is a number").help("compare it: `x != 0`"));
        };
        let dtype = self.program.type_of(condition);
        if dtype != Type::Bool {
            return Err(type_error(format!("the condition is {}", an(dtype))).help("compare it: `x != 0`"));
        }
        let common = match [self.strong(a), self.strong(b)] {
            [Some(Type::Bool), Some(Type::Bool)] => Type::Bool,
            _ => self.common(a, b)?,
        };
        let (a, b) = (self.convert(a, common)?, self.convert(b, common)?);
        Ok(self.push(Step::Where(condition, a, b), common))
    }
}

fn type_error(found: impl Into<String>) -> Error {
    Error::new(Kind::Type, found)
}

fn an(dtype: Type) -> &'static str {
    match dtype {
        Type::Bool => "a truth value",
        Type::F4 | Type::F8 => "a float",
        _ => "an integer",
    }
}
