package untrusted

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestShared checks that the complex filters of one caller occupy one slot at a time, and delay no other caller.
func TestShared(t *testing.T) {
	text := strings.Repeat("(", 5) + `ID == "web"` + strings.Repeat(")", 5)
	synctest.Test(t, func(t *testing.T) {
		s := &Shared{Slots: make(Slots, 2), turns: map[string]*turn{}}
		leave, err := s.enter("a", time.NewTimer(time.Hour)) // a request of a is being parsed
		if err != nil {
			t.Fatal(err)
		}
		s.Slots <- struct{}{}
		refused := make(chan error, 8)
		for range cap(refused) {
			go func() { _, err := s.Parse("a", text); refused <- err }()
		}
		synctest.Wait()
		if n := len(s.Slots); n != 1 {
			t.Errorf("the caller occupies %d slots, want 1", n)
		}
		begin := time.Now()
		if _, err := s.Parse("b", text); err != nil || time.Since(begin) > 0 {
			t.Errorf("Parse() of another caller = %v after %v, want at once", err, time.Since(begin))
		}
		if _, err := s.Parse("a", `ID == "web"`); err != nil {
			t.Errorf("Parse() of a usual filter = %v", err)
		}
		for range cap(refused) {
			if err := <-refused; !errors.Is(err, ErrBusy) {
				t.Errorf("Parse() of the same caller = %v, want ErrBusy", err)
			}
		}
		<-s.Slots
		leave()
		if _, err := s.Parse("a", text); err != nil || len(s.turns) != 0 {
			t.Errorf("Parse() after the turn = %v, %d turns are left", err, len(s.turns))
		}
	})
}
