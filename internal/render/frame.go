package render

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Kind is the kind of a frame.
type Kind byte

// The kinds of frames.
const (
	// KindContent is the rendered text of a template whose text has changed.
	KindContent Kind = 1
	// KindPass ends the contents that were rendered together.
	KindPass Kind = 2
	// KindMissing lists data that does not exist, sent when the list changes.
	KindMissing Kind = 3
	// KindOutage means that data cannot be read.
	KindOutage Kind = 4
	// KindRecovered ends an outage.
	KindRecovered Kind = 5
	// KindFatal is the last frame of a run that failed.
	KindFatal Kind = 6
	// KindDone is the last frame of a run that has nothing to wait for.
	KindDone Kind = 7
)

// Pass is the body of KindPass.
type Pass struct {
	// Complete is set if every template has been rendered.
	Complete bool
	// Live holds the indexes of the templates that are rendered again when their data changes. It is valid
	// in a complete pass.
	Live []int
}

// Missing is the body of KindMissing.
type Missing struct {
	Names []string // sorted, at most MaxNames
	More  int      // number of other names
}

// Outage is the body of KindOutage.
type Outage struct {
	Name string // of the data
	Text string // of the error
}

// Fatal is the body of KindFatal. Its text contains no value of a variable, a file or the
// environment.
type Fatal struct {
	Template int // index, or -1
	Line     int // of the template, or 0
	Text     string
	Memory   bool // the evaluation exceeded the memory limit
}

const headerSize = 5

// Writer writes frames.
type Writer struct{ w io.Writer }

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w} }

// Content writes the rendered text of a template.
func (w *Writer) Content(template int, text []byte) error {
	head := make([]byte, headerSize+4)
	head[0] = byte(KindContent)
	binary.BigEndian.PutUint32(head[1:], uint32(len(text)+4))
	binary.BigEndian.PutUint32(head[headerSize:], uint32(template))
	if _, err := w.w.Write(head); err != nil {
		return err
	}
	_, err := w.w.Write(text)
	return err
}

// Message writes any other frame. A nil body is empty.
func (w *Writer) Message(kind Kind, body any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	head := make([]byte, headerSize, headerSize+len(text))
	head[0] = byte(kind)
	binary.BigEndian.PutUint32(head[1:], uint32(len(text)))
	_, err := w.w.Write(append(head, text...))
	return err
}

// Frame is a received frame.
type Frame struct {
	Kind     Kind
	Template int // of KindContent; not checked against the request
	Size     int // of Body
	body     io.LimitedReader
}

// Body returns the rest of the body. It is valid until the next frame is read.
func (f *Frame) Body() io.Reader { return &f.body }

// Decode decodes a JSON body.
func (f *Frame) Decode(v any) error {
	text, err := io.ReadAll(&f.body)
	if err != nil {
		return fmt.Errorf("read frame of kind %d: %w", f.Kind, err)
	}
	if len(text) < f.Size {
		return fmt.Errorf("read frame of kind %d: %w", f.Kind, io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("frame of kind %d is malformed", f.Kind) // the error can contain the text
	}
	return nil
}

// Reader reads frames of a program that need not follow the protocol.
type Reader struct {
	r    *bufio.Reader
	last *Frame
}

// NewReader returns a Reader from r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReader(r)} }

// Next skips the rest of the last frame and returns the next one. At the end of the stream, it
// returns io.EOF.
func (r *Reader) Next() (*Frame, error) {
	if r.last != nil {
		if _, err := io.Copy(io.Discard, &r.last.body); err != nil {
			return nil, fmt.Errorf("skip frame: %w", err)
		}
		if r.last.body.N > 0 {
			return nil, io.ErrUnexpectedEOF
		}
	}
	var head [headerSize]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return nil, err
	}
	f := &Frame{Kind: Kind(head[0]), Size: int(binary.BigEndian.Uint32(head[1:]))}
	if err := r.check(f); err != nil {
		return nil, err
	}
	f.body = io.LimitedReader{R: r.r, N: int64(f.Size)}
	r.last = f
	return f, nil
}

// check checks the size of a frame, and reads the index of a content frame.
func (r *Reader) check(f *Frame) error {
	switch {
	case f.Kind < KindContent || f.Kind > KindDone:
		return fmt.Errorf("unknown kind of frame %d", f.Kind)
	case f.Kind != KindContent && f.Size > MaxMessage:
		return fmt.Errorf("frame of kind %d has %d bytes, at most %d are allowed", f.Kind, f.Size, MaxMessage)
	case f.Kind != KindContent:
		return nil
	case f.Size < 4 || f.Size > MaxContent+4:
		return fmt.Errorf("content frame has %d bytes, at most %d are allowed", f.Size, MaxContent)
	}
	var index [4]byte
	if _, err := io.ReadFull(r.r, index[:]); err != nil {
		return errors.Join(errors.New("read index of a content frame"), err)
	}
	f.Template, f.Size = int(binary.BigEndian.Uint32(index[:])), f.Size-4
	return nil
}
