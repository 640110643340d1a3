import { defineConfig, type Plugin } from 'vite';

// The script of the document is small and runs before the first paint, so that colours do not change after it.
const early: Plugin = {
  name: 'early',
  transformIndexHtml: { order: 'post', handler: (html) => html.replace('<script type="module"', '<script type="module" blocking="render"') },
};

// The page is built from src into dist, which is committed. Names of assets have the hash of their
// content; addresses are relative, so that the page works below any path.
export default defineConfig({
  root: 'src',
  base: './',
  publicDir: false,
  plugins: [early],
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
