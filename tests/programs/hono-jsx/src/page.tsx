import type { Child } from "hono/jsx";

/** The frame of every page. */
export function Page(props: { title: string; children?: Child }) {
  return (
    <html lang="en">
      <head>
        <title>{props.title}</title>
      </head>
      <body class="page">{props.children}</body>
    </html>
  );
}
