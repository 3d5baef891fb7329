package artifact_test

import (
	"net/http"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// A mode that does not fit the download is an error that names the mode, and no path of the node.
func TestModeDoesNotFit(t *testing.T) {
	h := newHarness(t, config())
	one, two := []entry{{name: "a", text: "a"}}, []entry{{name: "a", text: "a"}, {name: "b", text: "b"}}
	url := serve(t, map[string]http.HandlerFunc{
		"/one.tar": content(tarOf(t, one)), "/two.tar": content(tarOf(t, two)), "/two.zip": content(zipOf(t, two)),
		"/two.tgz": content(gz(t, tarOf(t, two))),
		"/a.gz":    content(gz(t, []byte("a"))), "/file": content("file"),
	})
	for _, name := range []string{"two.tar", "two.zip", "two.tgz"} {
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/" + name, GetterMode: "file", RelativeDest: "local/x"},
			"the archive has 2 entries, but mode is file")
	}
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/a.gz"}, "set mode = \"file\"")
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/file", GetterMode: "dir"},
		"nothing was downloaded with mode dir: the source is neither a directory nor an archive")
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/one.tar", GetterMode: "file", RelativeDest: "local/one"})
	h.has("local/one", "a")
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/a.gz", GetterMode: "file", RelativeDest: "local/gz"})
	h.has("local/gz", "a")
}
