package pantile

/*
#include <pantile.h>
*/
import "C"

// Shape is the form of a code, and its claim.
type Shape struct {
	Columns, Cells, DataCells, ParityCells int
	Equations                              int
	Tolerance                              int  // any set of this many columns can be lost
	IsMDS                                  bool // no code survives more losses with this redundancy
	IsXOR                                  bool // every coefficient is 1
	Fingerprint                            uint64
	Version                                int // equations behind spec and version never change
}

// Cell is one element of a stripe, and Position its place in user order; -1 if it holds parity.
type Cell struct{ Column, Row, Position int }

// Term is a coefficient times a cell, over GF(2^8) with the polynomial 0x11d.
type Term struct {
	Cell        int
	Coefficient byte
}

// describe reads what calls ask of the code: its shape, its rows, which columns hold data.
func (c *Codec) describe() error {
	var why C.pantile_error
	shape := C.pantile_shape{struct_bytes: C.sizeof_pantile_shape}
	if C.pantile_code_shape(c.code, &shape, &why) != C.PANTILE_OK {
		return failed(&why)
	}
	c.shape = Shape{
		Columns: int(shape.columns), Cells: int(shape.cells), DataCells: int(shape.data_cells),
		ParityCells: int(shape.parity_cells), Equations: int(shape.equations),
		Tolerance: int(shape.tolerance), IsMDS: shape.is_mds != 0, IsXOR: shape.is_xor != 0,
		Fingerprint: uint64(shape.fingerprint), Version: int(shape.version),
	}
	c.rows = make([]int, c.shape.Columns)
	c.holds = make([]bool, c.shape.Columns)
	cells, err := c.Cells()
	if err != nil {
		return err
	}
	for _, cell := range cells {
		c.rows[cell.Column]++
		c.holds[cell.Column] = c.holds[cell.Column] || cell.Position >= 0
	}
	c.spec, err = c.text(func(room *C.char, bytes C.size_t, need *C.size_t, why *C.pantile_error) C.pantile_status {
		return C.pantile_code_spec(c.code, room, bytes, need, why)
	})
	return err
}

// text returns the text of a call that says how much room it needs.
func (c *Codec) text(call func(*C.char, C.size_t, *C.size_t, *C.pantile_error) C.pantile_status) (string, error) {
	var why C.pantile_error
	var need C.size_t
	if call(nil, 0, &need, &why) != C.PANTILE_TOO_SMALL {
		return "", failed(&why)
	}
	room := make([]C.char, need)
	if call(&room[0], need, &need, &why) != C.PANTILE_OK {
		return "", failed(&why)
	}
	return C.GoString(&room[0]), nil
}

// Spec returns the canonical spec. That of a code file identifies, and does not define.
func (c *Codec) Spec() string { return c.spec }

// Shape returns the form of the code.
func (c *Codec) Shape() Shape { return c.shape }

// Rows returns the elements of a shard of this column; 0 if there is no such column.
func (c *Codec) Rows(column int) int {
	if column < 0 || column >= len(c.rows) {
		return 0
	}
	return c.rows[column]
}

// Text returns the code as a code file, that NewFromText reads.
func (c *Codec) Text() (string, error) {
	if err := c.enter(); err != nil {
		return "", err
	}
	defer c.leave()
	return c.text(func(room *C.char, bytes C.size_t, need *C.size_t, why *C.pantile_error) C.pantile_status {
		return C.pantile_code_text(c.code, room, bytes, need, why)
	})
}

// Cells returns the cells, column by column.
func (c *Codec) Cells() ([]Cell, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	cells := make([]Cell, c.shape.Cells)
	for i := range cells {
		var place C.pantile_cell
		var why C.pantile_error
		if C.pantile_code_cell(c.code, C.size_t(i), &place, &why) != C.PANTILE_OK {
			return nil, failed(&why)
		}
		// PANTILE_NONE is SIZE_MAX, and so -1.
		cells[i] = Cell{int(place.column), int(place.row), int(place.position)}
	}
	return cells, nil
}

// Equations returns the equations: the terms of each add up to zero.
func (c *Codec) Equations() ([][]Term, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	terms := make([]C.pantile_term, c.shape.Cells)
	equations := make([][]Term, c.shape.Equations)
	for i := range equations {
		var need C.size_t
		var why C.pantile_error
		if C.pantile_code_equation(c.code, C.size_t(i), &terms[0], C.size_t(len(terms)), &need, &why) != C.PANTILE_OK {
			return nil, failed(&why)
		}
		for _, term := range terms[:need] {
			equations[i] = append(equations[i], Term{int(term.cell), byte(term.coefficient)})
		}
	}
	return equations, nil
}

// Prove counts the losses of columns that can be recovered, level by level. It returns the number of
// columns of which any set can be lost, and the columns of one smallest fatal set. Wide codes of
// large tolerance take up to minutes.
func (c *Codec) Prove() (tolerance int, fatal []int, err error) {
	if err := c.enter(); err != nil {
		return 0, nil, err
	}
	defer c.leave()
	var proved, count, need C.size_t
	var why C.pantile_error
	levels := make([]C.pantile_level, len(c.rows))
	columns := make([]C.size_t, len(c.rows))
	room := C.size_t(len(c.rows))
	if C.pantile_prove(c.code, nil, &proved, &levels[0], room, &need, &columns[0], room, &count, &why) != C.PANTILE_OK {
		return 0, nil, failed(&why)
	}
	for _, column := range columns[:count] {
		fatal = append(fatal, int(column))
	}
	return int(proved), fatal, nil
}
