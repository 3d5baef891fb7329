package ui

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	download "github.com/chromedp/cdproto/browser"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/chromium"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

func filePath(id, path string) string {
	return "/ui/allocations/" + id + "/fs?path=" + url.QueryEscape(path)
}

// Directories can be browsed, whatever the names in them.
func TestFiles(t *testing.T) {
	h := open(t)
	names := []string{`a"'><img src=x onerror="window.injected=1">`, "50%?#&+=;a", rightToLeft + "gpj.exe",
		"two\nlines\x1b[31m", "..hidden", strings.Repeat("w", 200)}
	id := h.runShell(t, "files", script{
		task: "t",
		args: names,
		text: `cd local && mkdir empty && printf 'hello <b>text</b>\n' > plain.txt && printf 'a\000b' > binary.dat
		head -c 200000 /dev/zero | tr '\0' 'z' > long.txt && echo last >> long.txt
		n=0; for f in "$@"; do printf 'inside file %d' $n > "$f"; n=$((n+1)); done; touch ready; exec sleep 3600`,
	})
	testpace.Until(t, "the files exist", func() bool {
		_, _, err := h.agent.Client.AllocFS().Stat(&api.Allocation{ID: id}, "/t/local/ready", nil)
		return err == nil
	})
	h.visit(t, visited{name: "files-root", path: "/ui/allocations/" + id + "/fs", text: "alloc/"})
	h.visit(t, visited{name: "files", path: filePath(id, "/t/local"), text: "plain.txt"})
	h.visit(t, visited{name: "file", path: filePath(id, "/t/local/plain.txt"), text: "hello <b>text</b>"})

	p := h.signedIn(t, "404", "403")
	p.show(views[0])
	p.goTo("/ui/allocations/"+id, "Started")
	p.click("Files")
	p.click("t/")
	p.click("local/")
	p.waitText("plain.txt")
	for n, name := range names {
		p.goTo(filePath(id, "/t/local"), "plain.txt")
		find := `[...document.querySelectorAll('main table a')].find((a) => new URL(a.href).searchParams.get('path') === ` +
			fmt.Sprintf("%q", "/t/local/"+name) + `)`
		p.wait("the link of "+name, find)
		evaluate[bool](p, "("+find+").click() || true")
		p.waitText(fmt.Sprintf("inside file %d", n))
	}
	p.goTo(filePath(id, "/t/local"), `\u202eשלום\u202cgpj.exe`)
	p.waitText(`two\u000alines\u001b[31m`)
	if evaluate[bool](p, "Boolean(window.injected)") {
		t.Error("a name was inserted as markup")
	}
	p.typeInto("Name contains", "plain")
	p.wait("one file", "document.querySelectorAll('main tbody tr').length === 1")

	p.goTo(filePath(id, "/t/local/long.txt"), "bytes 0 to 65536 of 200005")
	p.click("Last")
	p.waitText("last")
	p.waitText("bytes 196608 to 200005")
	p.click("First")
	p.waitText("bytes 0 to 65536")
	p.goTo(filePath(id, "/t/local/binary.dat"), "This part of the file is not text.")
	p.goTo(filePath(id, "/t/local/absent"), "Could not read the files.")
	p.goTo(filePath(id, "/../../../etc/passwd"), "path escapes the alloc directory")
	p.goTo(filePath(id, "/t/local/empty"), "The directory is empty.")
}

// A download has the name and the bytes of the file. Its request has the token, and its URL has not.
func TestDownload(t *testing.T) {
	h := open(t)
	id := h.runShell(t, "download", script{task: "t", text: `printf 'a\000b' > local/data.bin; exec sleep 3600`})
	dir := t.TempDir()
	p := h.signedIn(t)
	p.do("allow downloads", chromium.Send(download.SetDownloadBehavior, download.SetDownloadBehaviorParams{
		Behavior:     download.SetDownloadBehaviorBehaviorAllow,
		DownloadPath: dir,
	}))
	testpace.Until(t, "the file exists", func() bool {
		info, _, err := h.agent.Client.AllocFS().Stat(&api.Allocation{ID: id}, "/t/local/data.bin", nil)
		return err == nil && info.Size == 3
	})
	p.goTo(filePath(id, "/t/local/data.bin"), "Download")
	p.click("Download")
	testpace.Until(t, "the download", func() bool {
		got, err := os.ReadFile(filepath.Join(dir, "data.bin"))
		return err == nil && string(got) == "a\x00b"
	})
}
