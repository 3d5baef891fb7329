package images

import (
	"log/slog"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
)

// An image is unused when its last task has released it, and used again with the next.
func TestImageUsers(t *testing.T) {
	m := New(Config{Plugin: &config.Plugin{GCImage: true, GCImageDelay: time.Hour}, Log: slog.New(slog.DiscardHandler)})
	unused := func() bool { return m.unused["image"] != nil }
	m.Acquire("image", "a")
	m.Acquire("image", "b")
	m.Acquire("image", "b")
	m.Release("image", "b")
	m.Release("image", "b")
	if unused() {
		t.Error("the image is unused while a task uses it")
	}
	m.Release("image", "a")
	if !unused() {
		t.Error("the image is used without a task")
	}
	m.Acquire("image", "c")
	if unused() {
		t.Error("the image is unused after the next start")
	}
}
