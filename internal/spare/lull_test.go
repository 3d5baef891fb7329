package spare_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/internal/spare"
)

func TestLull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, l := time.Now(), spare.NewLull()
		for i := range 3 { // of which the second is noted before the first was heard
			time.AfterFunc(time.Duration(i/2)*80*time.Millisecond, l.Note)
		}
		if !l.Wait(ctx, 100*time.Millisecond) || time.Since(began) != 180*time.Millisecond {
			t.Errorf("the lull came after %v, want 100 ms after the last note at 80 ms", time.Since(began))
		}
		time.AfterFunc(time.Second, l.Note)
		if l.Noted() || !l.Next(ctx) || time.Since(began) != 1180*time.Millisecond {
			t.Errorf("the next note came after %v, want 1.18 s", time.Since(began))
		}
		l.Note()
		if !l.Noted() {
			t.Error("a note is not seen")
		}
		time.AfterFunc(time.Millisecond, cancel)
		if l.Wait(ctx, time.Second) || l.Next(ctx) {
			t.Error("waits have gone well after the end of their context")
		}
	})
}
