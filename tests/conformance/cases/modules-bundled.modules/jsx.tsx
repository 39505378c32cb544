/** @jsx h */
function h(
  tag: string,
  props: Record<string, unknown> | null,
  ...children: unknown[]
) {
  return { tag, props, children };
}
enum Colour {
  Red = "red",
}
export const tree = <p class={Colour.Red}>hi</p>;
