//! What a client reads when an event failed.

use std::fmt::Write;

use celld_runtime::exchange::EventError;
use http::StatusCode;

/// For the public: nothing but an id to ask the operator about.
pub(super) fn hidden(status: StatusCode, ray: &str) -> String {
    let name = status.canonical_reason().unwrap_or("Error");
    format!("{name}\nRay ID: {ray}\n")
}

/// For the developer's terminal.
pub(super) fn text(error: &EventError) -> String {
    let mut text = headline(error);
    text.push('\n');
    for line in stack_lines(error) {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// For the developer's programs.
pub(super) fn json(error: &EventError) -> String {
    let stack: Vec<&str> = stack_lines(error).map(str::trim).collect();
    let error = serde_json::json!({ "name": error.name, "message": error.message, "stack": stack });
    format!("{}\n", serde_json::json!({ "error": error }))
}

/// For the developer's browser.
pub(super) fn html(error: &EventError, status: StatusCode, ray: &str) -> String {
    let mut stack = String::new();
    for line in stack_lines(error) {
        // Frames of packages are of less interest than one's own.
        let class = if line.contains("node_modules/") {
            " class=\"far\""
        } else {
            ""
        };
        let _ = writeln!(stack, "<li{class}>{}</li>", escape(line.trim()));
    }
    format!(
        include_str!("error_page.html"),
        status = status.as_u16(),
        reason = status.canonical_reason().unwrap_or_default(),
        name = escape(&error.name),
        message = escape(&error.message),
        stack = stack,
        ray = escape(ray),
    )
}

fn headline(error: &EventError) -> String {
    format!("{}: {}", error.name, error.message)
}

/// The stack without the headline that V8 repeats at its top, and without frames of the runtime.
fn stack_lines(error: &EventError) -> impl Iterator<Item = &str> {
    let stack = error.stack.as_deref().unwrap_or_default();
    let repeated = headline(error);
    stack
        .strip_prefix(&repeated)
        .unwrap_or(stack)
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.contains("ext:"))
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> EventError {
        EventError {
            name: "TypeError".into(),
            message: "<script>alert(1)</script>".into(),
            stack: Some(
                "TypeError: <script>alert(1)</script>\n    at fetch (src/index.ts:3:9)".into(),
            ),
            ..EventError::default()
        }
    }

    #[test]
    fn the_page_shows_the_stack_and_runs_nothing() {
        let page = html(&error(), StatusCode::INTERNAL_SERVER_ERROR, "ray");
        assert!(page.contains("at fetch (src/index.ts:3:9)"));
        assert!(page.contains("&lt;script&gt;"));
        assert!(!page.contains("<script>"));
    }

    #[test]
    fn the_text_names_the_error_once() {
        let text = text(&error());
        assert_eq!(
            text,
            "TypeError: <script>alert(1)</script>\n    at fetch (src/index.ts:3:9)\n"
        );
    }

    #[test]
    fn the_public_learns_the_ray_only() {
        let text = hidden(StatusCode::INTERNAL_SERVER_ERROR, "8f-LOC");
        assert_eq!(text, "Internal Server Error\nRay ID: 8f-LOC\n");
    }
}
