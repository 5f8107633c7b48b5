// Which predictions of the page are answered, on its root element: <html data-sn-did="KEY KEY">.
// Style sheets and widgets read it there, whichever of them came first.

export function answeredKeys(text) {
  return (text ?? "").split(" ").filter((key) => key !== "");
}

export function isAnswered(key) {
  return answeredKeys(document.documentElement.dataset.snDid).includes(key);
}

export function markAnswered(key) {
  if (isAnswered(key)) return;
  const keys = answeredKeys(document.documentElement.dataset.snDid);
  document.documentElement.dataset.snDid = [...keys, key].join(" ");
}

// Calls back whenever another prediction is answered; returns the function that stops it.
export function onAnswered(call) {
  const observer = new MutationObserver(call);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-sn-did"] });
  return () => observer.disconnect();
}
