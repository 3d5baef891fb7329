package testtask

// GuestGreeting is what the guest of GuestDisk writes to its serial port.
const GuestGreeting = "hello from the guest"

// GuestDisk returns a disk with a boot sector for the machine type pc. The guest writes GuestGreeting to the serial port,
// waits for the power button, and powers off.
func GuestDisk() []byte {
	kernel := append([]byte{
		0xfa,       // cli
		0x31, 0xc0, // xor ax, ax
		0x8e, 0xd8, // mov ds, ax
		0xba, 0x02, 0x06, // mov dx, 0x602: enable register of the power management
		0xb8, 0x00, 0x01, // mov ax, 0x100: power button
		0xef,             // out dx, ax
		0xbe, 0x2d, 0x7c, // mov si, text
		0xac,       // next: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x06, // jz wait
		0xba, 0xf8, 0x03, // mov dx, 0x3f8: serial port
		0xee,       // out dx, al
		0xeb, 0xf5, // jmp next
		0xba, 0x00, 0x06, // wait: mov dx, 0x600: status register
		0xed,             // again: in ax, dx
		0xf6, 0xc4, 0x01, // test ah, 1
		0x74, 0xfa, // jz again
		0xba, 0x04, 0x06, // mov dx, 0x604: control register
		0xb8, 0x00, 0x20, // mov ax, 0x2000: soft off
		0xef,       // out dx, ax
		0xf4,       // halt: hlt
		0xeb, 0xfd, // jmp halt
	}, []byte(GuestGreeting+"\r\n\x00")...)
	disk := make([]byte, 1<<20)
	copy(disk, kernel)
	disk[510], disk[511] = 0x55, 0xaa
	return disk
}
