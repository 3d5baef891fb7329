package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// speaker is a script that writes a line to each output, and then the lines of a file as they are added.
func speaker(name, file string) script {
	return script{
		task: name,
		text: fmt.Sprintf(`echo "out of %s"; printf '\033[31mred\033[0m \033]0;t\007problem of %s\n' >&2; exec tail -n +1 -F %s`, name, name, file),
	}
}

func appendTo(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// The logs of several tasks are read at once: both outputs, live, each line once.
func TestLogs(t *testing.T) {
	t.Parallel() // it mostly waits
	h := open(t)
	file := filepath.Join(t.TempDir(), "lines")
	appendTo(t, file, "line 0\n")
	id := h.runShell(t, "speakers", speaker("first", file), speaker("second", file))
	h.visit(t, visited{name: "allocation-logs", path: "/ui/allocations/" + id + "/logs", text: "problem of second"})
	h.visit(t, visited{name: "job-logs", path: jobPath("speakers", "logs"), text: "problem of second"})

	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/allocations/"+id+"/logs", "problem of second")
	p.waitText("out of first")
	if got := evaluate[string](p, `[...document.querySelectorAll('.log-line')].find((e) => e.innerText.includes('problem of first')).innerText`); got != "first err red problem of first" {
		t.Errorf("a line is %q", got)
	}
	appendTo(t, file, "line 1\nline 2\nline")
	p.waitText("line 2")
	appendTo(t, file, " 3\n"+markup+rightToLeft+"\x01\n")
	p.wait("line 3 of both tasks", `[...document.querySelectorAll('.log-line')].filter((e) => e.innerText.includes('line 3')).length === 2`)
	p.waitText(`svg onload=window.injected=1>\u202eשלום\u202c\u0001`)
	for n := range 4 {
		if got := p.count(".log-line", fmt.Sprintf("line %d", n)); got != 2 {
			t.Errorf("line %d is there %d times, want once for each task", n, got)
		}
	}
	if evaluate[bool](p, "Boolean(window.injected) || document.querySelector('.log img, .log svg') !== null") {
		t.Error("markup of a log was inserted")
	}

	// A task and an output can be left out and shown again.
	p.check("second")
	p.wait("only the first task", `![...document.querySelectorAll('.log-line')].some((e) => e.innerText.startsWith('second'))`)
	evaluate[bool](p, `((e) => { e.value = 'stderr'; return e.dispatchEvent(new Event('change', {bubbles: true})) })(document.getElementById('log-type'))`)
	p.wait("only stderr", `document.querySelectorAll('.log-line').length === 1`)
	evaluate[bool](p, `((e) => { e.value = ''; return e.dispatchEvent(new Event('change', {bubbles: true})) })(document.getElementById('log-type'))`)
	p.check("second")
	p.wait("both tasks again", `[...document.querySelectorAll('.log-line')].filter((e) => e.innerText.includes('line 3')).length === 2`)

	// While it is paused nothing is read; nothing is lost.
	p.click("Pause")
	p.waitText("Paused")
	appendTo(t, file, "while paused\n")
	p.click("Clear")
	p.wait("no lines", `document.querySelectorAll('.log-line').length === 0`)
	p.click("Continue")
	p.wait("the lines since the pause",
		`[...document.querySelectorAll('.log-line')].filter((e) => e.innerText.includes('while paused')).length === 2`)
	if n := p.count(".log-line", "line 3"); n != 0 {
		t.Errorf("%d lines were read again", n)
	}

	// A limited number of lines is kept, and the newest are in view.
	appendTo(t, file, strings.Repeat("many lines\n", 6000)+"the end\n")
	p.wait("the last line of both",
		`[...document.querySelectorAll('.log-line')].slice(-8000).filter((e) => e.innerText.includes('the end')).length >= 1`)
	if n := evaluate[int](p, "document.querySelectorAll('.log-line').length"); n > 2000 {
		t.Errorf("%d lines are kept", n)
	}
	p.wait("the end is in view", "((e) => e.scrollHeight - e.scrollTop - e.clientHeight < 8)(document.querySelector('.log'))")
}

// The position in a log survives rotation; a token without the right to read logs sees the reason.
func TestLogsRotateAndRights(t *testing.T) {
	t.Parallel() // it mostly waits
	h := open(t)
	file := filepath.Join(t.TempDir(), "lines")
	appendTo(t, file, "begin\n")
	tasks := shell(speaker("first", file))
	tasks[0]["LogConfig"] = m{"MaxFiles": 2, "MaxFileSizeMB": 1}
	id := h.runJob(t, "rotating", tasks...)
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/allocations/"+id+"/first/logs", "begin")
	long := strings.Repeat("x", 1000) + "\n"
	for n := range 4 { // 600 KB each: two files
		appendTo(t, file, strings.Repeat(long, 600)+fmt.Sprintf("part %d\n", n))
		p.waitText(fmt.Sprintf("part %d", n))
		if got := p.count(".log-line", fmt.Sprintf("part %d", n)); got != 1 {
			t.Errorf("part %d is there %d times", n, got)
		}
	}
	if n := p.count(".log-line", "left out"); n != 0 {
		t.Errorf("%d marks of lines that were left out", n)
	}
	appendTo(t, file, strings.Repeat(long, 3000)+"after the flood\n")
	p.waitText("after the flood")

	_, secret := h.token(t, `namespace "default" { capabilities = ["read-job"] }`, 0)
	q := h.with(t, secret, "404")
	q.goTo("/ui/allocations/"+id+"/logs", "Could not read the logs.")
	q.waitText("Unknown allocation")
}
