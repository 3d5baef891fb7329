package artifact_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/nomad"
)

// A stream that needs more memory to unpack than the task has ends the program, not the agent. The next
// download works.
func TestMemoryOfTask(t *testing.T) {
	c, err := cgroup.Detect()
	if err == nil {
		err = c.Usable()
	}
	if os.Geteuid() != 0 || err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	if raced {
		t.Skip("the race detector multiplies the memory of the program")
	}
	random := make([]byte, 96<<20)
	source := rand.NewChaCha8([32]byte{})
	if _, err := source.Read(random); err != nil {
		t.Fatal(err)
	}
	window := func(size int, data []byte) []byte {
		return compress(t, data, func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithWindowSize(size), zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		})
	}
	entries := tarOf(t, []entry{{name: "random", text: string(random)}})
	cfg := config()
	cfg.Limits.Download, cfg.Limits.Unpacked = 200<<20, 200<<20
	h := newHarness(t, cfg)
	h.config.Limits.MemoryBytes = 32 << 20 // a download has at least 64 MiB
	url := serve(t, map[string]http.HandlerFunc{"/large.tar.zst": content(window(128<<20, entries)),
		"/small.tar.zst": content(window(8<<20, entries)), "/big": content(random), "/few": content("few bytes")})
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/large.tar.zst"}, "needs more memory than the task may use")
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/few", RelativeDest: "local/few"})
	var fs unix.Statfs_t
	if err := unix.Statfs(h.local, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return // the files of the download are memory of the program
	}
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/small.tar.zst", RelativeDest: "local/small"})
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/big"})
	h.has("local/big", string(random))
}
