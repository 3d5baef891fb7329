package deb_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// guide is the first guide of the site.
const guide = "../../website/content/docs/get-started.md"

// guideBlocks are the blocks of the guide for a machine of their own.
var guideBlocks = regexp.MustCompile("(?ms)^<!-- not run: packaging/deb runs it on a machine of its own -->\n```console\n(.*?)^```$")

// block is a console block of the guide.
type block struct {
	commands string
	output   []*regexp.Regexp // one for each line that the page shows; … stands for any text
}

// blocks returns the blocks of the guide in their order.
func blocks(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	var all []block
	for _, m := range guideBlocks.FindAllStringSubmatch(string(text), -1) {
		var b block
		for line := range strings.Lines(m[1]) {
			line = strings.TrimSuffix(line, "\n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				b.commands += command + "\n"
				continue
			}
			b.output = append(b.output, regexp.MustCompile("(?m)^ *"+strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(line)), "…", ".*")))
		}
		all = append(all, b)
	}
	if len(all) != 3 {
		t.Fatalf("%s has %d blocks for a machine, want 3: the installation, a job, its page", guide, len(all))
	}
	return all
}

// separator is a line of the script between the output of two blocks.
const separator = "---- end of a block ----\n"

// TestFirstGuide does what a reader of the first guide does on a new machine: it installs the package, runs a job,
// reads its output, and opens its page with the printed address.
func TestFirstGuide(t *testing.T) {
	need(t, "chromium")
	all := blocks(t)
	h := boot(t)
	copyTo(t, build(t, nomad(t), pages(t), "2.0.6+1"), filepath.Join(h.Root, "root/open-nomad_2.0.6+1.deb"))
	script := "set -eEuo pipefail\ntrap 'echo \"exit status $?: $BASH_COMMAND\"' ERR\n"
	for _, b := range all {
		script += b.commands + "echo '" + strings.TrimSpace(separator) + "'\n"
	}
	if err := os.WriteFile(filepath.Join(h.Root, "root/guide.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	h.writableControlGroups()

	parts := strings.Split(h.do("cd /root && bash guide.sh")+"\n", separator)
	if len(parts) != len(all)+1 {
		t.Fatalf("%d blocks ended, want %d:\n%s", len(parts)-1, len(all), parts)
	}
	for i, b := range all {
		for _, want := range b.output {
			if !want.MatchString(parts[i]) {
				t.Errorf("block %d of the guide shows a line that matches %s; its commands print:\n%s", i+1, want, parts[i])
			}
		}
	}
	address := regexp.MustCompile(`http://\S+\?ott=\S+`).FindString(parts[2])
	if address == "" {
		t.Fatalf("the last block prints no address: %s", parts[2])
	}
	h.jobPage(address)
}

// jobPage opens the page of the job of the guide in a browser on the machine, and its logs.
func (h host) jobPage(address string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	p := openBrowser(ctx, h)
	p.load(address)
	p.await("the name of the job", "document.querySelector('h1')?.innerText.includes('example')")
	p.await("its status", "/\\brunning\\b/i.test(document.querySelector('.page-title')?.innerText)")
	p.await("an address without the token", "!location.href.includes('ott=')")
	p.screenshot("guide-job")
	p.await("the tab Logs", "[...document.querySelectorAll('a')].find((e) => e.innerText.trim() === 'Logs')?.click() ?? location.pathname.endsWith('/logs')")
	p.await("the output of the job", "/listening on 127\\.0\\.0\\.1:\\d+ as/.test(document.body.innerText)")
	p.screenshot("guide-logs")
	p.close()
}

// inNetwork writes a program that runs another one in the network namespace of the machine.
func (h host) inNetwork(program string) string {
	h.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		missing(h.T, "install "+program)
	}
	name := filepath.Join(h.TempDir(), program)
	text := fmt.Sprintf("#!/bin/sh\nexec nsenter --target=%s --net -- %s \"$@\"\n", h.Leader(), path)
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		h.Fatal(err)
	}
	return name
}
