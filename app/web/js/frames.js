/**
 * One update a frame, however many changes there are.
 *
 * In a hidden tab there are no frames, so a timer stands in. An update that is expensive is followed by a pause of
 * three times its cost: whatever the text has become, the page answers. `flush` updates at once, unconditionally.
 */
const HIDDEN_MS = 250;
const REST = 3;

export class Frames {
  #update;
  #settled;
  #cancel = null;
  #notBefore = 0;

  /** @param update does it  @param settled returns a promise for when the page shows it */
  constructor(update, settled) {
    this.#update = update;
    this.#settled = settled;
  }

  request() {
    if (this.#cancel) return;
    const wait = this.#notBefore - performance.now();
    if (document.hidden) this.#after(HIDDEN_MS);
    else if (wait > 0) this.#after(wait);
    else {
      const id = requestAnimationFrame(() => this.flush());
      // A tab that is hidden between now and the frame never sees it.
      const timer = setTimeout(() => this.flush(), HIDDEN_MS);
      this.#cancel = () => {
        cancelAnimationFrame(id);
        clearTimeout(timer);
      };
    }
  }

  flush() {
    this.#cancel?.();
    this.#cancel = null;
    const start = performance.now();
    this.#update();
    this.#settled().then(() => {
      const now = performance.now();
      this.#notBefore = now + REST * (now - start);
    });
  }

  #after(milliseconds) {
    const timer = setTimeout(() => this.flush(), milliseconds);
    this.#cancel = () => clearTimeout(timer);
  }
}
