import { defineConfig, type Plugin } from 'vite';

// The script of the document is small and runs before the first paint, so that colours do not change after
// it. The page's code, which it asks for later, is fetched from the start, behind the styles; as a
// modulepreload it would be compiled before the first paint, too.
const preload: Plugin = {
  name: 'preload',
  transformIndexHtml: {
    order: 'post',
    handler(html, { bundle = {} }) {
      const chunks = Object.values(bundle).filter((c) => c.type === 'chunk' && c.isDynamicEntry).map((c) => c.fileName);
      return {
        html: html.replace('<script type="module"', '<script type="module" blocking="render"'),
        tags: chunks.map((name) => ({ tag: 'link', attrs: { rel: 'preload', as: 'script', crossorigin: true, fetchpriority: 'low', href: `./${name}` }, injectTo: 'head' })),
      };
    },
  },
};

// The page is built from src into dist, which is committed. Names of assets have the hash of their
// content; addresses are relative, so that the page works below any path.
export default defineConfig({
  root: 'src',
  base: './',
  publicDir: false,
  plugins: [preload],
  build: {
    outDir: process.env.PAGE_OUT ?? '../dist',
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    license: { fileName: 'assets/licences.md' },
    chunkSizeWarningLimit: 1000,
    rollupOptions: {
      output: {
        entryFileNames: 'assets/[name]-[hash].js',
        chunkFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
});
