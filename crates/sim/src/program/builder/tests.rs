use super::*;

#[test]
fn labels_resolve_forwards_and_backwards() {
    let mut b = ProgramBuilder::new("p");
    let end = b.label();
    let top = b.here();
    b.work(5);
    b.jump_if(Reg(3), Compare::Less, 9, end);
    b.jump_indexed(Reg(1), &[top, end]);
    b.jump(top);
    b.bind(end);
    let program = b.finish().unwrap();
    assert_eq!(program.instructions()[3], Instruction::Jump(0));
    assert!(matches!(
        program.instructions()[1],
        Instruction::JumpIf { target: 4, .. }
    ));
    assert_eq!(program.tables(), [vec![0, 4]]);
    assert_eq!(program.registers(), 4);
}

#[test]
fn bad_labels_are_refused() {
    let mut b = ProgramBuilder::new("p");
    let nowhere = b.label();
    b.jump(nowhere);
    let error = b.finish().unwrap_err().to_string();
    assert_eq!(error, "program p: label 0 is used but never bound");

    let mut b = ProgramBuilder::new("p");
    let twice = b.here();
    b.bind(twice);
    let error = b.finish().unwrap_err().to_string();
    assert_eq!(error, "program p: label 0 is bound twice");
}

#[test]
fn registers_out_of_range_are_refused() {
    let mut b = ProgramBuilder::new("p");
    b.work(Reg(64));
    let error = b.finish().unwrap_err().to_string();
    assert_eq!(
        error,
        "program p: register 64 is out of range, there are 64"
    );
    let mut b = ProgramBuilder::new("p");
    b.log(0, Reg(60), 5);
    assert!(b.finish().is_err());
    let mut b = ProgramBuilder::new("p");
    b.log(0, Reg(60), 4);
    assert_eq!(b.finish().unwrap().registers(), 64);
}

#[test]
fn each_distribution_of_a_program_has_one_stream() {
    let mut b = ProgramBuilder::new("p");
    b.work(DistributionId(7));
    b.sleep(DistributionId(3));
    b.work(DistributionId(7));
    let program = b.finish().unwrap();
    assert_eq!(program.streams(), 2);
    assert_eq!(program.instructions()[0], program.instructions()[2]);
    assert_eq!(
        program.instructions()[1],
        Instruction::Sleep(Amount::draw_from(DistributionId(3), 1))
    );
}
