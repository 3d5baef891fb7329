package alloc

import "io"

// escapes reads terminal input, handles escape sequences and passes the rest on.
//
//	begin ──escape──▶ escaped ──"."──▶ left
//	  ▲ │                │ └──escape──▶ passes one on
//	  │ └──other──▶ line ◀──other, passed on with the escape──┘
//	  └──newline───┘
type escapes struct {
	in    io.Reader
	char  byte
	leave func()

	begin, escaped, left bool
	buf                  []byte // passed on, but not read yet
}

func newEscapes(in io.Reader, char byte, leave func()) *escapes {
	return &escapes{in: in, char: char, leave: leave, begin: true}
}

// Read implements io.Reader.
func (e *escapes) Read(p []byte) (int, error) {
	for len(e.buf) == 0 {
		if e.left {
			return 0, io.EOF
		}
		typed := make([]byte, max(len(p), 1))
		n, err := e.in.Read(typed)
		for _, c := range typed[:n] {
			if e.take(c); e.left {
				break
			}
		}
		if err != nil && e.escaped {
			e.buf, e.escaped = append(e.buf, e.char), false
		}
		if err != nil && len(e.buf) == 0 {
			return 0, err
		}
	}
	n := copy(p, e.buf)
	e.buf = e.buf[n:]
	return n, nil
}

func (e *escapes) take(c byte) {
	switch {
	case e.escaped && c == '.':
		e.left, e.escaped = true, false
		e.leave()
		return
	case e.escaped && c == e.char:
		e.escaped = false
	case e.escaped:
		e.escaped = false
		e.buf = append(e.buf, e.char)
	case e.begin && c == e.char:
		e.escaped = true
		return
	}
	e.buf = append(e.buf, c)
	e.begin = c == '\n' || c == '\r'
}
