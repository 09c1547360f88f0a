// Opens a page in a real browser, in every way that a reader may, and prints what it found as JSON.
//
//   node inspect.mjs PAGE.html [SCREENSHOT_FOLDER]
//
// Nothing but the file itself is ever loaded: the page is opened over file://, and every other request is reported.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [page, screenshots] = process.argv.slice(2);
const require = createRequire(join(process.cwd(), "inspect.mjs"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const url = pathToFileURL(page).href;
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const SCREENS = [
  { width: 360, height: 740 },
  { width: 1280, height: 900 },
];

// The driver gives the browser a new, empty folder for its data, and each context shares nothing with the others.
const browser = await chromium.launch({ executablePath: CHROMIUM, headless: true, args: FLAGS });

async function withPage(options, work) {
  const context = await browser.newContext(options);
  try {
    const tab = await context.newPage();
    const messages = [];
    const requests = [];
    tab.on("console", (message) => messages.push(message.text()));
    tab.on("pageerror", (error) => messages.push(String(error)));
    tab.on("request", (request) => request.url() === url || requests.push(request.url()));
    await tab.goto(url);
    return { ...(await work(tab)), messages, requests };
  } finally {
    await context.close();
  }
}

// Runs inside the page. What is wider than the screen, and which letters of the drawing are cut or too small.
function measure() {
  const width = document.documentElement.clientWidth;
  const wide = [...document.querySelectorAll("body *:not(.skip)")]
    .filter((element) => !element.closest("svg") && !element.closest("thead"))
    .filter((element) => element.getBoundingClientRect().right > width + 0.5)
    .map((element) => `${element.tagName}.${element.className}`);
  const drawings = [...document.querySelectorAll("svg.drawing")].filter((svg) => svg.getBoundingClientRect().width);
  const texts = drawings.flatMap((svg) => [...svg.querySelectorAll("text")]);
  const right = (text) => (text.closest("svg.node") ?? text.closest("svg")).getBoundingClientRect().right;
  return {
    overflow: document.documentElement.scrollWidth - width,
    wide,
    drawings: drawings.map((svg) => svg.classList[1]),
    cut: texts.filter((text) => text.getBoundingClientRect().right > right(text)).map((text) => text.textContent),
    smallest: Math.min(
      ...texts.map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a),
    ),
  };
}

async function view(colorScheme, viewport) {
  const options = { colorScheme, viewport, bypassCSP: true };
  return withPage(options, async (tab) => {
    if (screenshots) {
      await tab.screenshot({ path: join(screenshots, `${colorScheme}-${viewport.width}.png`) });
    }
    await tab.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
    const measured = await tab.evaluate(measure);
    await tab.evaluate(axe);
    const found = await tab.evaluate((tags) => globalThis.axe.run({ runOnly: tags, resultTypes: ["violations"] }), TAGS);
    const violations = found.violations.map(({ id, nodes }) => ({ id, nodes: nodes.map((node) => node.html) }));
    return { colorScheme, width: viewport.width, ...measured, violations, rules: found.passes.length };
  });
}

async function asItIs() {
  return withPage({ viewport: SCREENS[1] }, async (tab) => ({
    scripts: await tab.locator("script").count(),
    outline: await tab.locator("body").ariaSnapshot(),
  }));
}

// A key or a click returns before the page has moved: what is there right after it may still be the place before.
async function landing(tab, follow) {
  const before = new URL(tab.url()).hash;
  await follow();
  await tab.waitForURL((url) => url.hash !== before);
  return new URL(tab.url()).hash;
}

async function withoutScripts() {
  return withPage({ viewport: SCREENS[0], javaScriptEnabled: false }, async (tab) => {
    await tab.keyboard.press("Tab");
    const first = await tab.locator(":focus").textContent();
    const skipped = await landing(tab, () => tab.keyboard.press("Enter"));
    const details = tab.locator("details:not([open])").first();
    const table = details.locator("table");
    const before = await table.isVisible();
    await details.locator("summary").click();
    const after = await tab.locator("#overview table").isVisible();
    const followed = await landing(tab, () => tab.locator("#overview table a").first().click());
    const last = await landing(tab, () => tab.locator("nav a").last().click());
    return { first, skipped, before, after, followed, last };
  });
}

async function onPaper() {
  return withPage({ viewport: SCREENS[1], bypassCSP: true }, async (tab) => {
    await tab.emulateMedia({ media: "print" });
    const tables = tab.locator("table");
    const heights = await tables.evaluateAll((all) => all.map((table) => table.getBoundingClientRect().height));
    const navigation = await tab.locator("nav").isVisible();
    const pdf = await tab.pdf({ format: "A4" });
    return { heights, navigation, bytes: pdf.length };
  });
}

const looks = SCREENS.flatMap((screen) => ["light", "dark"].map((scheme) => [scheme, screen]));
const views = await Promise.all(looks.map(([scheme, screen]) => view(scheme, screen)));
const report = {
  views,
  asItIs: await asItIs(),
  withoutScripts: await withoutScripts(),
  onPaper: await onPaper(),
};
await browser.close();
process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
