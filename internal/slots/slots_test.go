package slots_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/internal/slots"
)

func TestTake(t *testing.T) {
	for _, c := range []struct {
		name        string
		each, total int
		keys        string // one slot for each letter; a capital letter releases one first
		want        []int
	}{
		{"each", 2, 0, "aaab", []int{1, 2, 0, 1}},
		{"total", 0, 3, "aabb", []int{1, 2, 1, 0}},
		{"both", 2, 3, "aaabb", []int{1, 2, 0, 1, 0}},
		{"unlimited", 0, 0, "aaa", []int{1, 2, 3}},
		{"released", 1, 2, "abAcB", []int{1, 1, 1, 0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, used := slots.New[rune](c.each, c.total), 0
			for i, key := range c.keys {
				if key < 'a' {
					key += 'a' - 'A'
					s.Release(key)
					used--
				}
				got := s.Take(key)
				if got != c.want[i] {
					t.Errorf("Take(%c), call %d = %d, want %d", key, i, got, c.want[i])
				}
				used += min(got, 1)
				if used := s.Used(key); got > 0 && used != got {
					t.Errorf("Used(%c), call %d = %d, want %d", key, i, used, got)
				}
			}
			if got := s.Count(); got != used {
				t.Errorf("Count() = %d, want %d", got, used)
			}
		})
	}
}
