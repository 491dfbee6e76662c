// Copies commands. Without it, the page has no buttons.
"use strict";
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = button.previousElementSibling;
    getSelection().selectAllChildren(code); // a page opened from a file may not write to the clipboard
    const copied = navigator.clipboard ? await navigator.clipboard.writeText(code.textContent).then(() => true, () => false)
      : document.execCommand("copy");
    button.textContent = copied ? "copied" : "selected";
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  });
}
