package artifact_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// No ref makes git read a file of the node, whose content an error would show (CVE-2026-4660).
func TestGitRefReadsNoFile(t *testing.T) {
	r := newRepos(t)
	r.add("app", map[string]string{"file": "one"})
	h := newHarness(t, config())
	for _, ref := range []string{"--pathspec-from-file=/etc/passwd", "/etc/passwd", ":/etc/passwd", "main%20--pathspec-from-file=/etc/passwd",
		"@{/etc/passwd}"} {
		for _, depth := range []string{"", "&depth=1"} {
			res := h.get(&nomad.TaskArtifact{GetterSource: r.source("app") + "?ref=" + ref + depth})
			if res.Err == nil || strings.Contains(res.Err.Error(), "root:") {
				t.Errorf("ref %s%s: %v", ref, depth, res.Err)
			}
		}
	}
}
