#include "textflag.h"

// func dotNEON(a, b *int8, n int) int32
// n is a multiple of 16. The assembler lacks some instructions: WORD encodes them.
TEXT ·dotNEON(SB), NOSPLIT, $0-28
	MOVD a+0(FP), R0
	MOVD b+8(FP), R1
	MOVD n+16(FP), R2
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16

loop:
	CBZ    R2, done
	VLD1.P 16(R0), [V2.B16]
	VLD1.P 16(R1), [V3.B16]
	WORD   $0x0E23C044 // SMULL V4.8H, V2.8B, V3.8B
	WORD   $0x4E23C045 // SMULL2 V5.8H, V2.16B, V3.16B
	WORD   $0x4E606880 // SADALP V0.4S, V4.8H
	WORD   $0x4E6068A1 // SADALP V1.4S, V5.8H
	SUB    $16, R2
	B      loop

done:
	VADD  V1.S4, V0.S4, V0.S4
	WORD  $0x4EB1B800 // ADDV S0, V0.4S
	FMOVS F0, R3
	MOVW  R3, ret+24(FP)
	RET
