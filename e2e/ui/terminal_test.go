package ui

import (
	"testing"

	"github.com/chromedp/cdproto/network"

	"github.com/open-nomad/open-nomad/e2e/chromium"
)

// The terminal is the only part that is not in the bundle. Without it the page reports what to do.
func TestTerminalNotLoaded(t *testing.T) {
	h := open(t)
	id := h.runShell(t, "no-terminal", script{task: "t", text: "exec sleep 3600"})
	p := h.signedIn(t, "ERR_BLOCKED_BY_CLIENT")
	p.show(views[0])
	p.do("block the terminal", chromium.Send(network.SetBlockedURLs,
		network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/*/exec/terminal.js", Block: true}}}))
	p.goTo(execPath("no-terminal", "t", id), "Not connected")
	p.click("Connect")
	p.waitText("The terminal could not be loaded.")
	p.waitText("Ended")
}
