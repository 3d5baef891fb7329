package joblogs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

// rotated is a log of files whose oldest ones are removed.
type rotated struct {
	files   []string // all contents
	removed int
}

// read returns the frames from an offset across the stored files, with at most size bytes each.
func (r *rotated) read(offset int64, size int) []*api.StreamFrame {
	var out []*api.StreamFrame
	for n := r.removed; n < len(r.files); n++ {
		text := r.files[n]
		from := min(offset, int64(len(text)))
		offset -= from
		for at := int(from); at < len(text); {
			end := min(at+size, len(text))
			out = append(out, &api.StreamFrame{File: fmt.Sprintf("alloc/logs/web.stdout.%d", n), Offset: int64(end), Data: []byte(text[at:end])})
			at = end
		}
	}
	return out
}

// resume reads the log with the cursor until stop bytes were returned or the log ends, as a reader does
// after a lost connection.
func resume(t *testing.T, c *cursor, r *rotated, from int64, stop int) string {
	t.Helper()
	var out strings.Builder
	offset, verified := from, false
	for range 100 {
		if c.begun {
			offset, verified = c.reopen()
		}
		frames := r.read(offset, 7)
		if len(frames) == 0 && verified {
			c.missed()
			continue
		}
		missed := false
		for _, f := range frames {
			data, ok := c.take(f)
			if !ok {
				missed = true
				break
			}
			out.Write(data)
			if out.Len() >= stop {
				return out.String()
			}
		}
		if !missed {
			return out.String()
		}
		c.missed()
	}
	t.Fatal("the cursor does not find its position")
	return ""
}

// Whatever is written, rotated and removed between two connections: nothing that is stored is lost, and
// nothing is printed twice.
func TestCursor(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 19))
		log, c := &rotated{files: []string{""}}, &cursor{}
		var written, printed strings.Builder
		lost := false
		write := func() {
			for range 1 + rnd.IntN(30) {
				if len(log.files[len(log.files)-1]) >= 20 {
					log.files = append(log.files, "")
				}
				text := fmt.Sprintf("%d,", written.Len())
				log.files[len(log.files)-1] += text
				written.WriteString(text)
			}
		}
		write()
		from := int64(rnd.IntN(20)) * int64(rnd.IntN(2)) // as with -tail
		for range 1 + rnd.IntN(6) {
			printed.WriteString(resume(t, c, log, from, 1+rnd.IntN(60)))
			write()
			if keep := 1 + rnd.IntN(5); rnd.IntN(3) == 0 && len(log.files)-log.removed > keep {
				log.removed = len(log.files) - keep
				lost = lost || c.n < log.removed
			}
		}
		printed.WriteString(resume(t, c, log, from, 1<<30))
		want := written.String()[from:]
		got := printed.String()
		if !lost && got != want {
			t.Fatalf("seed %d: printed\n%s, want\n%s", seed, got, want)
		}
		// The rest that is stored is printed, once.
		if rest := strings.Join(log.files[max(log.removed, 0):], ""); lost &&
			(!strings.HasSuffix(got, rest) && !strings.HasSuffix(rest, got) || strings.Count(got, rest) > 1) {
			t.Fatalf("seed %d: printed\n%s, which does not end with what is stored:\n%s", seed, got, rest)
		}
	}
}

func TestLines(t *testing.T) {
	for _, tc := range []struct {
		name         string
		color, raw   bool
		last         int64
		stored, next string
		want         string
	}{
		{"prefixes", false, false, -1, "a\nb\nc", "d\n", "01234567 web a\n01234567 web b\n01234567 web cd\n"},
		{"an incomplete last line", false, false, -1, "a", "b", "01234567 web ab\n"},
		{"raw", false, true, -1, "a\nb", "c", "a\nbc"},
		{"the last two", false, false, 2, "a\nb\nc\n", "d\n", "01234567 web b\n01234567 web c\n01234567 web d\n"},
		{"none of the stored", false, false, 0, "a\nb\nc\n", "d\n", "01234567 web d\n"},
		{"colors", true, false, -1, "a\n", "", "\x1b[" + "CODE" + "m01234567 web\x1b[0m a\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			o := &Output{Stdout: &out, ColorStdout: tc.color, Raw: tc.raw}
			l := o.lines("01234567-89ab", "web", false, tc.last)
			for _, text := range []string{tc.stored, tc.next} {
				if err := l.add([]byte(text)); err != nil {
					t.Fatal(err)
				}
				if err := l.caughtUp(); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.end(); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if code, _, ok := strings.Cut(strings.TrimPrefix(got, "\x1b["), "m"); ok && tc.color {
				got = strings.Replace(got, "["+code+"m", "[CODEm", 1)
			}
			if got != tc.want {
				t.Errorf("printed %q, want %q", got, tc.want)
			}
		})
	}
	var out strings.Builder
	l := (&Output{Stdout: &out}).lines("0", "t", false, -1)
	for range 3 {
		if err := l.add([]byte(strings.Repeat("x", maxLine))); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(out.String(), "\n"); got != 3 || len(l.rest) != 0 {
		t.Errorf("an endless line was broken %d times with %d bytes kept, want 3 and none", got, len(l.rest))
	}
}
