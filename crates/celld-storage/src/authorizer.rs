//! What SQL written by a script may do: allow-lists of functions, pragmas and virtual tables,
//! and the protection of names that begin with `_cf_`.

use std::ffi::c_int;

use rusqlite::ffi;

/// Functions that scripts may call, sorted.
const FUNCTIONS: &[&str] = &[
    "->",
    "->>",
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "avg",
    "bm25",
    "ceil",
    "changes",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "cos",
    "cosh",
    "count",
    "cume_dist",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "degrees",
    "dense_rank",
    "exp",
    "first_value",
    "floor",
    "format",
    "glob",
    "group_concat",
    "hex",
    "highlight",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_object",
    "json_patch",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_type",
    "json_valid",
    "jsonb",
    "jsonb_array",
    "jsonb_extract",
    "jsonb_group_array",
    "jsonb_group_object",
    "jsonb_insert",
    "jsonb_object",
    "jsonb_patch",
    "jsonb_remove",
    "jsonb_replace",
    "jsonb_set",
    "julianday",
    "lag",
    "last_insert_rowid",
    "last_value",
    "lead",
    "length",
    "like",
    "likelihood",
    "likely",
    "ln",
    "log",
    "log2",
    "lower",
    "ltrim",
    "match",
    "max",
    "min",
    "mod",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "pi",
    "pow",
    "printf",
    "quote",
    "radians",
    "random",
    "randomblob",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtreecheck",
    "rtrim",
    "sign",
    "sin",
    "sinh",
    "snippet",
    "sqlite_drop_column",
    "sqlite_rename_column",
    "sqlite_rename_quotefix",
    "sqlite_rename_table",
    "sqlite_rename_test",
    "sqrt",
    "stat_get",
    "stat_init",
    "stat_push",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "sum",
    "tan",
    "tanh",
    "time",
    "timediff",
    "total",
    "total_changes",
    "trim",
    "trunc",
    "typeof",
    "unhex",
    "unicode",
    "unixepoch",
    "unlikely",
    "upper",
    "zeroblob",
];

/// Modules from which scripts may create virtual tables, or which they may use as table-valued
/// functions. Every other module is removed from the connection.
pub(crate) const MODULES: &[&std::ffi::CStr] = &[
    c"fts5",
    c"fts5vocab",
    c"rtree",
    c"rtree_i32",
    c"json_each",
    c"json_tree",
    c"jsonb_each",
    c"jsonb_tree",
];

/// Pragmas that a script sets for its connection, and which must outlive the connection.
const SETTINGS: &[&str] = &[
    "case_sensitive_like",
    "foreign_keys",
    "ignore_check_constraints",
    "legacy_alter_table",
    "recursive_triggers",
    "reverse_unordered_selects",
];

/// How a pragma may be used.
enum PragmaUse {
    /// Only without an argument.
    Read,
    /// Only with one.
    Ask,
    /// With or without one.
    Any,
}

fn pragma_use(name: &str) -> Option<PragmaUse> {
    Some(match name {
        "data_version" | "page_size" => PragmaUse::Read,
        "case_sensitive_like"
        | "defer_foreign_keys"
        | "foreign_key_check"
        | "foreign_keys"
        | "ignore_check_constraints"
        | "legacy_alter_table"
        | "optimize"
        | "quick_check"
        | "recursive_triggers"
        | "reverse_unordered_selects"
        | "table_list" => PragmaUse::Any,
        "foreign_key_list" | "index_info" | "index_list" | "index_xinfo" | "table_info"
        | "table_xinfo" => PragmaUse::Ask,
        _ => return None,
    })
}

/// True for names that belong to the engine.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.as_bytes()
        .get(..4)
        .is_some_and(|head| head.eq_ignore_ascii_case(b"_cf_"))
}

/// The arguments that SQLite hands to an authorizer, decoded.
pub(crate) struct Action<'a> {
    pub code: i32,
    pub first: Option<&'a str>,
    pub second: Option<&'a str>,
    pub database: Option<&'a str>,
}

/// What a statement does that its caller must know. Collected while it is compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traits {
    /// It begins or ends a transaction, and was refused for that.
    pub controls_transaction: bool,
    /// It writes, or its effect lasts for a transaction: one must be open.
    pub needs_transaction: bool,
    /// It may rename something, so reserved names must be looked for afterwards.
    pub renames: bool,
    /// It changes the schema.
    pub changes_schema: bool,
    /// The first table that it writes.
    pub write: Option<Write>,
    /// A pragma that it sets for the connection, and the value.
    pub setting: Option<(String, String)>,
}

/// How a statement writes a table.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub table: String,
    pub kind: WriteKind,
    /// Columns that it updates.
    pub columns: Vec<String>,
}

/// Kinds of writing statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Insert,
    Update,
    Delete,
}

impl Traits {
    /// Judges one action of a script's statement, and notes what it does. Answers what
    /// SQLite's authorizer callback answers.
    pub fn authorize(&mut self, action: &Action<'_>) -> c_int {
        self.note_write(action);
        self.note_setting(action);
        match judge(action) {
            Verdict::Allow => {}
            Verdict::AllowInTransaction => self.needs_transaction = true,
            Verdict::AllowRename => self.renames = true,
            Verdict::DenyTransaction => {
                self.controls_transaction = true;
                return ffi::SQLITE_DENY;
            }
            Verdict::Deny => return ffi::SQLITE_DENY,
            Verdict::Skip => return ffi::SQLITE_IGNORE,
        }
        ffi::SQLITE_OK
    }

    fn note_setting(&mut self, action: &Action<'_>) {
        if let (ffi::SQLITE_PRAGMA, Some(name), Some(value)) =
            (action.code, action.first, action.second)
        {
            let name = name.to_ascii_lowercase();
            if SETTINGS.contains(&&*name) {
                self.setting = Some((name, value.to_owned()));
            }
        }
    }

    fn note_write(&mut self, action: &Action<'_>) {
        let kind = match action.code {
            ffi::SQLITE_INSERT => WriteKind::Insert,
            ffi::SQLITE_UPDATE => WriteKind::Update,
            ffi::SQLITE_DELETE => WriteKind::Delete,
            _ => return,
        };
        let Some(table) = action.first else { return };
        if matches!(table, "sqlite_master" | "sqlite_schema") {
            self.changes_schema = true;
            return;
        }
        let write = self.write.get_or_insert_with(|| Write {
            table: table.to_owned(),
            kind,
            columns: Vec::new(),
        });
        if write.kind == WriteKind::Update && write.table == table {
            write.columns.extend(action.second.map(str::to_owned));
        }
    }
}

/// What the authorizer says about one action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    Deny,
    /// Left out without an error: `ANALYZE` of everything passes over the engine's tables.
    Skip,
    /// A transaction statement: refused with a text of its own.
    DenyTransaction,
    /// Allowed, but the effect lasts only inside a transaction, so one must be open.
    AllowInTransaction,
    /// Allowed, but names must be checked again afterwards.
    AllowRename,
}

/// Judges one action of a script's statement.
pub(crate) fn judge(action: &Action<'_>) -> Verdict {
    let reserved = |name: Option<&str>| name.is_some_and(is_reserved);
    let unless = |refused: bool| {
        if refused {
            Verdict::Deny
        } else {
            Verdict::Allow
        }
    };
    // What is temporary would end with the connection, and that is closed when the cell rests.
    // (ALTER TABLE reads and updates the temporary schema, whether there is one or not.)
    let creates = matches!(
        action.code,
        ffi::SQLITE_CREATE_INDEX
            | ffi::SQLITE_CREATE_TABLE
            | ffi::SQLITE_CREATE_TRIGGER
            | ffi::SQLITE_CREATE_VIEW
            | ffi::SQLITE_CREATE_VTABLE
            | ffi::SQLITE_PRAGMA
    );
    if creates && action.database == Some("temp") {
        return Verdict::Deny;
    }
    match action.code {
        ffi::SQLITE_SELECT | ffi::SQLITE_RECURSIVE => Verdict::Allow,
        ffi::SQLITE_READ
        | ffi::SQLITE_INSERT
        | ffi::SQLITE_DELETE
        | ffi::SQLITE_UPDATE
        | ffi::SQLITE_CREATE_TABLE
        | ffi::SQLITE_DROP_TABLE
        | ffi::SQLITE_CREATE_VIEW
        | ffi::SQLITE_DROP_VIEW => unless(reserved(action.first)),
        ffi::SQLITE_ANALYZE if reserved(action.first) => Verdict::Skip,
        ffi::SQLITE_ANALYZE => Verdict::Allow,
        ffi::SQLITE_CREATE_INDEX
        | ffi::SQLITE_DROP_INDEX
        | ffi::SQLITE_CREATE_TRIGGER
        | ffi::SQLITE_DROP_TRIGGER
        | ffi::SQLITE_DROP_VTABLE
        | ffi::SQLITE_REINDEX => unless(reserved(action.first) || reserved(action.second)),
        ffi::SQLITE_ALTER_TABLE => match reserved(action.second) {
            true => Verdict::Deny,
            false => Verdict::AllowRename,
        },
        ffi::SQLITE_CREATE_VTABLE => {
            let known = action.second.is_some_and(|module| {
                let module = module.to_ascii_lowercase();
                matches!(&*module, "fts5" | "fts5vocab" | "rtree" | "rtree_i32")
            });
            unless(!known || reserved(action.first))
        }
        ffi::SQLITE_FUNCTION => {
            let known = action.second.is_some_and(|name| {
                let name = name.to_ascii_lowercase();
                FUNCTIONS.binary_search(&&*name).is_ok()
            });
            unless(!known)
        }
        ffi::SQLITE_PRAGMA => judge_pragma(action),
        ffi::SQLITE_TRANSACTION | ffi::SQLITE_SAVEPOINT => Verdict::DenyTransaction,
        // ATTACH, DETACH, everything temporary, and actions that this list does not know.
        _ => Verdict::Deny,
    }
}

fn judge_pragma(action: &Action<'_>) -> Verdict {
    let name = action.first.unwrap_or_default().to_ascii_lowercase();
    match pragma_use(&name) {
        Some(PragmaUse::Read) if action.second.is_none() => Verdict::Allow,
        Some(PragmaUse::Ask) if action.second.is_some_and(|name| !is_reserved(name)) => {
            Verdict::Allow
        }
        // The list of tables has the engine's too, as on Cloudflare.
        Some(PragmaUse::Any) if name != "table_list" && action.second.is_some_and(is_reserved) => {
            Verdict::Deny
        }
        // `optimize` may write statistics.
        Some(PragmaUse::Any) if matches!(&*name, "defer_foreign_keys" | "optimize") => {
            Verdict::AllowInTransaction
        }
        Some(PragmaUse::Any) => Verdict::Allow,
        _ => Verdict::Deny,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_functions_is_sorted() {
        assert!(FUNCTIONS.is_sorted());
    }

    #[test]
    fn reserved_names_are_known_in_any_case() {
        assert!(is_reserved("_cf_KV"));
        assert!(is_reserved("_CF_x"));
        assert!(!is_reserved("_cf"));
        assert!(!is_reserved("cf_KV"));
        assert!(!is_reserved("_cé_"));
    }

    #[test]
    fn an_unknown_action_is_refused() {
        let action = Action {
            code: 4711,
            first: None,
            second: None,
            database: None,
        };
        assert_eq!(judge(&action), Verdict::Deny);
    }
}
