package fetch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of messages.
const (
	Progress = "progress"
	Done     = "done"
	Failed   = "failed"
)

const (
	maxLine = 16 << 10
	maxText = 2 << 10 // bytes of Message.Text
)

// Message is a line of the program's output.
type Message struct {
	Kind    string
	Bytes   int64  `json:",omitempty"` // progress: received so far
	Total   int64  `json:",omitempty"` // progress: 0 if unknown
	Archive bool   `json:",omitempty"` // done: ArchiveName must be unpacked
	File    string `json:",omitempty"` // done: name of the single file below OutName, or OutName itself
	Text    string `json:",omitempty"` // failed: the reason
}

// Write writes a message as one line.
func Write(w io.Writer, m Message) error {
	m.Text = Clean(m.Text)
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Read calls each with every message until end of file. Each is responsible for a limit of the number.
func Read(r io.Reader, each func(Message) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	for lines.Scan() {
		var m Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("malformed message: %w", err)
		}
		m.Text = Clean(m.Text)
		if err := each(m); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("message is longer than %d bytes", maxLine)
	}
	return lines.Err()
}

// Clean returns text on one line, without control characters and at most 2 KiB long. Use it for text of
// servers and programs in an event or a log.
func Clean(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) <= maxText {
		return text
	}
	end := maxText - len("...")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
