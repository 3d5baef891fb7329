package ui

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/open-nomad/open-nomad/e2e/chromium"
)

func execPath(job, task, id string) string {
	return "/ui/exec/" + url.PathEscape(job+"@default") + "/web/" + task + "/" + id
}

// keys types text into the focused element, as a keyboard does.
func (p *tab) keys(text string) {
	p.t.Helper()
	p.do("type", chromium.Send(input.InsertText, input.InsertTextParams{Text: text}))
}

func (p *tab) press(key, code string, modifiers int64) {
	p.t.Helper()
	number := map[string]int64{"Enter": 13, "Escape": 27, "L": 76, "Tab": 9}[key]
	text := map[string]string{"Enter": "\r"}[key]
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		p.do("press "+key, chromium.Send(input.DispatchKeyEvent, input.DispatchKeyEventParams{
			Type:                  kind,
			Key:                   key,
			Code:                  code,
			Modifiers:             modifiers,
			WindowsVirtualKeyCode: number,
			Text:                  text,
		}))
	}
}

// screen waits until the terminal shows a text.
func (p *tab) screen(text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf("%q in the terminal", text), fmt.Sprintf(`[...document.querySelectorAll('.xterm-rows > div')].some((e) => e.textContent.replaceAll('\u00a0', ' ').includes(%q))`, text))
}

// A terminal runs a command in a task: input, output, size and exit code; the token is in no URL.
func TestExec(t *testing.T) {
	h := open(t)
	id := h.runShell(t, "terminal", script{task: "t", text: "exec sleep 3600"})
	h.visit(t, visited{name: "exec", path: execPath("terminal", "t", id), text: "For a screen reader", act: func(p *tab) {
		p.click("Connect")
		p.waitText("Connected")
		p.keys("printf '\\033[33mcol%s\\033[0m\\n' oured")
		p.press("Enter", "Enter", 0)
		p.screen("coloured")
	}})

	p := h.signedIn(t)
	var mu sync.Mutex
	var sockets []string
	p.listenTo(t, func(event any) {
		if e, ok := event.(*network.EventWebSocketCreated); ok {
			mu.Lock()
			sockets = append(sockets, e.URL)
			mu.Unlock()
		}
	})
	p.show(views[0])
	p.goTo("/ui/allocations/"+id, "Started")
	p.click("Terminal")
	p.waitText("Not connected")
	p.click("Connect")
	p.waitText("Connected")
	p.keys("echo $NOMAD_TASK_NAME-$((40+2)) " + rightToLeft)
	p.press("Enter", "Enter", 0)
	p.screen("t-42")

	// The size of the terminal is that of the command, also after a change.
	p.keys("stty size | tr ' ' x")
	p.press("Enter", "Enter", 0)
	size := `(() => { const rows = document.querySelectorAll('.xterm-rows > div').length; return rows })()`
	p.screen(fmt.Sprintf("%dx", evaluate[int](p, size)))
	before := evaluate[int](p, size)
	p.show(view{"large", 1280, 1100, 1, false})
	p.wait("more rows", fmt.Sprintf("%s > %d", size, before))
	p.keys("stty size | tr ' ' x")
	p.press("Enter", "Enter", 0)
	p.screen(fmt.Sprintf("%dx", evaluate[int](p, size)))

	// The keyboard leaves the terminal; a command that writes a lot does not break it.
	p.press("L", "KeyL", 10)
	p.wait("the focus is outside", "document.activeElement.innerText === 'Disconnect'")
	evaluate[bool](p, "document.querySelector('.xterm-helper-textarea').focus() || true")
	p.press("Enter", "Enter", 0)
	p.keys("head -c 20000000 /dev/zero | tr '\\0' 'y'; echo; echo fl''ood over; exit 7")
	p.press("Enter", "Enter", 0)
	p.waitText("The command ended with exit code 7.")
	p.screen("flood over")

	p.typeInto("Command", `sh -c "echo 'two words'`)
	p.waitText("A quotation mark is not closed")
	p.typeInto("Command", `sh -c "echo 'two words'; sleep 1000"`)
	p.click("Connect")
	p.screen("two words")
	p.click("Disconnect")
	p.waitText("You disconnected.")

	mu.Lock()
	defer mu.Unlock()
	if len(sockets) != 2 || strings.Contains(strings.Join(sockets, " "), management) || !strings.Contains(sockets[0], "ws_handshake=true") {
		t.Errorf("sockets %q: want 2 without the token", sockets)
	}
}

// A session that is refused reports why.
func TestExecRefused(t *testing.T) {
	h := open(t)
	id := h.runShell(t, "refused", script{task: "t", text: "exec sleep 3600"})
	_, secret := h.token(t, `namespace "default" { capabilities = ["read-job"] }`, 0)
	p := h.with(t, secret)
	p.goTo(execPath("refused", "t", id), "Connect")
	p.click("Connect")
	p.waitText("The session failed.")
	p.waitText("needs alloc-exec in any namespace")

	q := h.signedIn(t)
	q.goTo(execPath("refused", "none", id), "Connect")
	q.click("Connect")
	q.waitText("The session failed.")
	q.goTo(execPath("refused", "t", id), "Connect")
	q.typeInto("Command", "/no/such/command")
	q.click("Connect")
	q.waitText("Ended")
}

// listenTo calls fn for each event of the window.
func (p *tab) listenTo(t *testing.T, fn func(any)) {
	t.Helper()
	if err := chromedp.Listen(p.ctx, fn); err != nil {
		t.Fatal(err)
	}
}

func TestWords(t *testing.T) {
	h := open(t)
	p := h.signedIn(t)
	p.goTo("/ui/settings/tokens", "Appearance")
	got := evaluate[string](p, `(async () => {
		const base = document.querySelector('script[type=module]').src.replace(/[^/]*$/, '')
		const { words } = await import(base + 'pages/exec/words.js')
		return [' /bin/sh ', 'sh -c "a \'b\' \\"c\\""', "a '' b\\ c", "'a", 'a\\', ' ', "''"].map((t) => JSON.stringify(words(t))).join(' ')
	})()`)
	if want := `["/bin/sh"] ["sh","-c","a 'b' \"c\""] ["a","","b c"] null null null null`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
