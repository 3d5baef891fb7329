package taskrunner

import (
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/mock"
)

// A driver without exec support gives hooks no Exec function.
func TestNoExecForHooks(t *testing.T) {
	r := &Runner{cfg: Config{Driver: mock.New(mock.Name, slog.New(slog.DiscardHandler))}}
	if r.execer() != nil {
		t.Error("hooks may run commands with a driver that cannot")
	}
}

func TestBounded(t *testing.T) {
	b := &bounded{remaining: 5}
	for _, text := range []string{"abc", "def", "ghi"} {
		if n, err := b.Write([]byte(text)); n != 3 || err != nil {
			t.Errorf("Write(%q) = %d, %v", text, n, err)
		}
	}
	if got := string(b.bytes()); got != "abcde" {
		t.Errorf("it contains %q, want abcde", got)
	}
}
