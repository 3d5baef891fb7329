package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	cmdterm "github.com/open-nomad/open-nomad/command/term"
)

// Escape sequences of terminals.
const (
	enter = "\x1b[?1049h\x1b[?25l" // the other screen, no cursor
	leave = "\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	erase = "\x1b[K"  // the rest of the line
	below = "\x1b[J"  // the rest of the screen
	keyed = "\x1b[7m" // the line of the keys
	plain = "\x1b[0m"
)

// screen shows snapshots on a terminal.
type screen struct {
	in, out *os.File
	from    *collector
	show    view
	sort    string
	scroll  int
	last    *Snapshot
	fault   string // of the last snapshot, "" after a good one
}

func newScreen(in, out *os.File, from *collector) *screen {
	return &screen{in: in, out: out, from: from, sort: from.options.sort}
}

// result is a snapshot or the error of reading it.
type result struct {
	snapshot *Snapshot
	err      error
}

// errQuit means that the user pressed a key to quit.
var errQuit = errors.New("quit")

// run shows the screen until the user quits or ctx ends. It restores the terminal.
func (s *screen) run(ctx context.Context) error {
	first, err := s.from.snapshot(ctx) // before the screen changes, so that an error is an ordinary one
	if err != nil {
		return err
	}
	s.last = first
	before, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return fmt.Errorf("Failed to set up the terminal: %w", err)
	}
	defer term.Restore(int(s.in.Fd()), before) //nolint:errcheck // nothing can be done about an error
	fmt.Fprint(s.out, enter)
	defer fmt.Fprint(s.out, leave)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	keys := make(chan byte, 64)
	go readKeys(s.in, keys) // stays blocked in a read until the command exits
	results := make(chan result, 1)
	go s.refresh(ctx, results)
	for {
		if err := s.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case r := <-results:
			s.take(r)
		case key, ok := <-keys:
			if !ok || s.press(key) == errQuit {
				return nil
			}
		}
	}
}

// take stores a snapshot. After an error the last one stays.
func (s *screen) take(r result) {
	if r.err != nil {
		s.fault = r.err.Error()
		return
	}
	s.last, s.fault = r.snapshot, ""
}

// refresh reads a snapshot after each interval.
func (s *screen) refresh(ctx context.Context, to chan<- result) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.from.options.interval):
		}
		snapshot, err := s.from.snapshot(ctx)
		select {
		case <-ctx.Done():
			return
		case to <- result{snapshot, err}:
		}
	}
}

// readKeys reads keys. An arrow is an escape sequence and becomes j or k.
func readKeys(in *os.File, to chan<- byte) {
	defer close(to)
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		text := strings.NewReplacer("\x1b[A", "k", "\x1bOA", "k", "\x1b[B", "j", "\x1bOB", "j").Replace(string(buf[:n]))
		for _, b := range []byte(text) {
			to <- b
		}
	}
}

// press handles a key.
func (s *screen) press(key byte) error {
	switch key {
	case 'q', 'Q', 3, 4: // also the control characters C and D
		return errQuit
	case 'c':
		s.sort = byCPU
	case 'm':
		s.sort = byMemory
	case '\t':
		s.show, s.scroll = (s.show+1)%views, 0
	case 'j':
		s.scroll++
	case 'k':
		s.scroll = max(s.scroll-1, 0)
	}
	return nil
}

// draw writes the screen in one write.
func (s *screen) draw() error {
	columns, rows, err := term.GetSize(int(s.out.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		columns, rows = 80, 24
	}
	_, err = s.out.WriteString(home + strings.Join(s.lines(columns, rows), erase+"\r\n") + erase + below)
	return err
}

// lines returns the lines of a screen.
func (s *screen) lines(columns, rows int) []string {
	s.last.order(s.sort)
	out := s.last.header()
	if s.fault != "" {
		out[0] = "error, showing " + out[0] + ": " + cmdterm.Cell(s.fault)
	}
	body := s.last.table(s.show, columns)
	space := max(rows-len(out)-1, 1)
	s.scroll = max(min(s.scroll, len(body)-space), 0)
	body = body[s.scroll:min(s.scroll+space, len(body))]
	out = append(out, body...)
	for len(out) < rows-1 {
		out = append(out, "")
	}
	for i, line := range out {
		out[i] = shorten(line, columns)
	}
	out = append(out, keyed+shorten(fmt.Sprintf("q quit  c CPU  m memory  Tab lists  j/k scroll  (by %s)", s.sort), columns)+plain)
	return out[max(len(out)-rows, 0):]
}
