// Takes the token out of the link that the node printed: what follows "#" is sent to nobody, and stands in no log.
const form = document.querySelector("form[data-sign-in]");

function take() {
  const token = decodeURIComponent(location.hash.slice(1));
  if (!/^[\w.~+/=-]{16,512}$/.test(token)) return;
  history.replaceState(null, "", location.pathname + location.search); // out of the address and the history
  form.elements.token.value = token;
  form.requestSubmit();
}

addEventListener("hashchange", take);
take();
