package docker

import (
	"log/slog"
	"testing"
	"time"
)

// An image is unused when its last task has released it, and used again with the next.
func TestImageUsers(t *testing.T) {
	d := New(Config{Name: Name, Log: slog.New(slog.DiscardHandler)})
	d.set = settings{gcImage: true, gcImageDelay: time.Hour}
	m := newImages(d)
	unused := func() bool { return m.unused["image"] != nil }
	m.acquire("image", "a")
	m.acquire("image", "b")
	m.acquire("image", "b")
	m.release("image", "b")
	m.release("image", "b")
	if unused() {
		t.Error("the image is unused while a task uses it")
	}
	m.release("image", "a")
	if !unused() {
		t.Error("the image is used without a task")
	}
	m.acquire("image", "c")
	if unused() {
		t.Error("the image is unused after the next start")
	}
}
