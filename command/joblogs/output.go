package joblogs

import (
	"bytes"
	"hash/fnv"
	"io"
	"sync"
)

// Output receives the lines of the logs: one writer per type of log, each with or without colors.
type Output struct {
	Stdout, Stderr           io.Writer
	ColorStdout, ColorStderr bool
	// Raw omits the prefixes.
	Raw bool
	// Warn receives errors that end the log of one task only. Print does not need it.
	Warn func(string)

	mu sync.Mutex // held while lines are written, so that lines do not mix
}

// lines turns the data of one log into prefixed lines.
type lines struct {
	out    *Output
	to     io.Writer
	prefix string
	rest   []byte // an incomplete line, at most maxLine bytes
	// tail holds the newest lines until flushed, if the log is printed from its last n lines.
	tail    [][]byte
	tailing bool
	max     int64
}

// colors are the codes of the colors of prefixes.
var colors = []string{"36", "33", "32", "35", "34", "31", "96", "93", "92", "95", "94", "91"}

// lines returns the printer of one log. last is the number of lines to print of what is stored,
// negative for all.
func (o *Output) lines(alloc, task string, stderr bool, last int64) *lines {
	to, colored := o.Stdout, o.ColorStdout
	if stderr {
		to, colored = o.Stderr, o.ColorStderr
	}
	l := &lines{out: o, to: to, tailing: last >= 0, max: last}
	if o.Raw {
		return l
	}
	l.prefix = alloc[:min(8, len(alloc))] + " " + task
	if colored {
		h := fnv.New32a()
		io.WriteString(h, alloc)
		l.prefix = "\x1b[" + colors[h.Sum32()%uint32(len(colors))] + "m" + l.prefix + "\x1b[0m"
	}
	l.prefix += " "
	return l
}

// add prints the complete lines of the data and keeps the rest.
func (l *lines) add(data []byte) error {
	if l.out.Raw && !l.tailing {
		return l.write(data)
	}
	l.rest = append(l.rest, data...)
	var ready [][]byte
	for {
		end := bytes.IndexByte(l.rest, '\n') + 1
		if end == 0 {
			if len(l.rest) < maxLine {
				break
			}
			end = len(l.rest)
		}
		ready = append(ready, l.rest[:end])
		l.rest = l.rest[end:]
	}
	err := l.print(ready)
	l.rest = bytes.Clone(l.rest)
	return err
}

// print writes lines, or keeps the last of them.
func (l *lines) print(ready [][]byte) error {
	if l.tailing {
		for _, line := range ready {
			l.tail = append(l.tail, bytes.Clone(line))
		}
		l.tail = l.tail[max(0, int64(len(l.tail))-l.max):]
		return nil
	}
	var text []byte
	for _, line := range ready {
		text = append(text, l.prefix...)
		text = append(text, line...)
		if line[len(line)-1] != '\n' && !l.out.Raw {
			text = append(text, '\n')
		}
	}
	return l.write(text)
}

// caughtUp prints the last lines of what was stored. Later lines are printed as they come.
func (l *lines) caughtUp() error {
	if !l.tailing {
		return nil
	}
	l.tailing = false
	tail := l.tail
	l.tail = nil
	return l.print(tail)
}

// end prints everything, also an incomplete line.
func (l *lines) end() error {
	if len(l.rest) > 0 {
		last := l.rest
		l.rest = nil
		if err := l.print([][]byte{last}); err != nil {
			return err
		}
	}
	return l.caughtUp()
}

func (l *lines) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	_, err := l.to.Write(text)
	return err
}
