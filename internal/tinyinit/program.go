//go:build amd64 || arm64

package tinyinit

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"unsafe"
)

// initText returns the address of the first instruction of init_*.s. The code is position
// independent, and this process never runs it.
func initText() unsafe.Pointer

// endMark follows the last instruction.
const endMark = "on-init\x00"

// Layout of the program in memory and in its file: one page, read and executed only.
const (
	page     = 4096
	initBase = 0x400000
	headers  = 64 + 2*56 // the file's header and two of segments
)

// Program returns the executable of init.
func Program() ([]byte, error) { return initELF(), nil }

// instructions copies the instructions.
func instructions() []byte {
	text := unsafe.Slice((*byte)(initText()), page-headers)
	end := bytes.Index(text, []byte(endMark))
	if end < 0 {
		panic("tinyinit: bug: init has no end or is longer than a page")
	}
	return bytes.Clone(text[:end])
}

// Numbers of the ELF format.
const (
	elfIdent   = "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00" // 64 bits, little endian, version 1
	elfExec    = 2                                                         // ET_EXEC
	elfAMD64   = 62                                                        // EM_X86_64
	elfARM64   = 183                                                       // EM_AARCH64
	elfLoad    = 1                                                         // PT_LOAD
	elfStack   = 0x6474e551                                                // PT_GNU_STACK
	elfReadRun = 4 | 1                                                     // PF_R | PF_X
	elfReadPut = 4 | 2                                                     // PF_R | PF_W
)

// initELF makes an executable of the instructions.
func initELF() []byte {
	code := instructions()
	machine := uint16(elfAMD64)
	if runtime.GOARCH == "arm64" {
		machine = elfARM64
	}
	size := uint64(headers + len(code))
	le := binary.LittleEndian
	b := []byte(elfIdent)
	half := func(vs ...uint16) {
		for _, v := range vs {
			b = le.AppendUint16(b, v)
		}
	}
	word := func(vs ...uint32) {
		for _, v := range vs {
			b = le.AppendUint32(b, v)
		}
	}
	long := func(vs ...uint64) {
		for _, v := range vs {
			b = le.AppendUint64(b, v)
		}
	}
	half(elfExec, machine)
	word(1)                       // version
	long(initBase+headers, 64, 0) // entry, segment headers, no sections
	word(0)                       // flags
	half(64, 56, 2, 0, 0, 0)      // sizes and numbers of headers
	word(elfLoad, elfReadRun)     // the whole file
	long(0, initBase, initBase, size, size, page)
	word(elfStack, elfReadPut) // a stack that is not executed
	long(0, 0, 0, 0, 0, 16)
	return append(b, code...)
}
