// Wrangler's rules make a text module of every .html file.
declare module "*.html" {
  const text: string;
  export default text;
}
