package ui

import "testing"

// A browser opens six connections to an agent. More windows than that must not wait for each other.
func TestManyWindows(t *testing.T) {
	h := open(t)
	h.run(t, mock("windows", ""))
	for range 7 {
		p := h.signedIn(t)
		p.show(views[0])
		p.goTo("/ui/jobs?q=windows", "windows")
		p.wait("updates", "document.querySelector('.top-state').innerText.match(/Live|Every 10 s/)")
	}
	p := h.signedIn(t)
	p.goTo("/ui/jobs?q=windows", "Every 10 s")
}
