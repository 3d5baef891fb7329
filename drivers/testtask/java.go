package testtask

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"testing"
)

// JavaClass is the name of the class of JavaProgram.
const JavaClass = "Run"

// JavaProgram returns a class whose main method runs its arguments as a command, with its own standard streams, and
// ends with the exit code of the command.
func JavaProgram() []byte {
	var c classFile
	this, parent := c.class(JavaClass), c.class("java/lang/Object")
	builder := c.class("java/lang/ProcessBuilder")
	construct := c.method(builder, "<init>", "([Ljava/lang/String;)V")
	inherit := c.method(builder, "inheritIO", "()Ljava/lang/ProcessBuilder;")
	start := c.method(builder, "start", "()Ljava/lang/Process;")
	wait := c.method(c.class("java/lang/Process"), "waitFor", "()I")
	exit := c.method(c.class("java/lang/System"), "exit", "(I)V")
	var code bytes.Buffer
	put(&code, uint8(0xbb), builder, uint8(0x59), uint8(0x2a), uint8(0xb7), construct) // new, dup, aload_0, invokespecial
	put(&code, uint8(0xb6), inherit, uint8(0xb6), start, uint8(0xb6), wait)            // invokevirtual
	put(&code, uint8(0xb8), exit, uint8(0xb1))                                         // invokestatic, return
	main, signature, attribute := c.text("main"), c.text("([Ljava/lang/String;)V"), c.text("Code")

	var out bytes.Buffer
	put(&out, uint32(0xcafebabe), uint16(0), uint16(49), c.count+1)
	out.Write(c.pool.Bytes())
	// public class Run extends Object, without interfaces and fields, with one method
	put(&out, uint16(0x21), this, parent, uint16(0), uint16(0), uint16(1))
	// public static void main(String[])
	put(&out, uint16(9), main, signature, uint16(1), attribute, uint32(12+code.Len()), uint16(3), uint16(1), uint32(code.Len()))
	out.Write(code.Bytes())
	put(&out, uint16(0), uint16(0), uint16(0)) // without exceptions and attributes
	return out.Bytes()
}

// JavaArchive returns a jar of the class of JavaProgram.
func JavaArchive(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"META-INF/MANIFEST.MF", []byte("Manifest-Version: 1.0\nMain-Class: " + JavaClass + "\n\n")}, {JavaClass + ".class", JavaProgram()}} {
		w, err := z.Create(f.name)
		if err == nil {
			_, err = w.Write(f.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// classFile is the pool of constants of a class.
type classFile struct {
	pool  bytes.Buffer
	count uint16
}

// add adds a constant and returns its index.
func (c *classFile) add(tag uint8, values ...any) uint16 {
	put(&c.pool, append([]any{tag}, values...)...)
	c.count++
	return c.count
}

func (c *classFile) text(s string) uint16 {
	index := c.add(1, uint16(len(s)))
	c.pool.WriteString(s)
	return index
}

func (c *classFile) class(name string) uint16 { return c.add(7, c.text(name)) }

func (c *classFile) method(class uint16, name, signature string) uint16 {
	return c.add(10, class, c.add(12, c.text(name), c.text(signature)))
}

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		binary.Write(b, binary.BigEndian, v) //nolint:errcheck // to memory
	}
}
