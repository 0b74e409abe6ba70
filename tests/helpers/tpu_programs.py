"""A program in the form that the TPU compiler gives."""

# In the compiler's form: an input that is a weight, a product whose result is kept for
# the sum at the end, a fusion that reads one slice of it, a tensor inside the core
# (S(1)), and a loop. Tiles of 8 x 128 pad 30 x 100 to 32 x 128.
PROGRAM = """\
HloModule step, is_scheduled=true

%half (param_0.1: bf16[3,30,100]) -> bf16[1,30,100] {
  %param_0.1 = bf16[3,30,100]{2,1,0:T(8,128)(2,1)} parameter(0)
  ROOT %slice.1 = bf16[1,30,100]{2,1,0:T(8,128)(2,1)} slice(%param_0.1), slice={[0:1]}
}

%fused_square (param_0.2: bf16[3,30,100]) -> f32[30,100] {
  %param_0.2 = bf16[3,30,100]{2,1,0:T(8,128)(2,1)} parameter(0)
  %view = bf16[3,30,100]{2,1,0:T(8,128)(2,1)} bitcast(%param_0.2)
  %fusion.9 = bf16[1,30,100]{2,1,0:T(8,128)(2,1)} fusion(%view), calls=%half
  ROOT %product.1 = f32[30,100]{1,0:T(8,128)} convolution(%fusion.9, %fusion.9)
}

%fused_sums (param_0.3: bf16[3,30,100]) -> (f32[30], bf16[3,30,100]) {
  %param_0.3 = bf16[3,30,100]{2,1,0:T(8,128)(2,1)} parameter(0)
  %sums.1 = f32[30]{0:T(128)} reduce(%param_0.3), dimensions={0,2}, to_apply=%add
  ROOT %both = (f32[30]{0:T(128)}, bf16[3,30,100]{2,1,0}) tuple(%sums.1, %param_0.3)
}

%body (state.1: (f32[30])) -> (f32[30]) {
  %state.1 = (f32[30]{0:T(128)}) parameter(0)
  %part = f32[30]{0:T(128)} get-tuple-element(%state.1), index=0
  %large = f32[16,128]{1,0:T(8,128)} broadcast(%part), metadata={op_name="while/Fill"}
  %small = f32[30]{0:T(128)} reduce(%large), metadata={op_name="while/Sum"}
  ROOT %next = (f32[30]{0:T(128)}) tuple(%small)
}

ENTRY %main.0 (weight: bf16[3,30,100]) -> (f32[], f32[30,100]) {
  %weight = bf16[3,30,100]{2,1,0:T(8,128)(2,1)} parameter(0)
  %fusion.1 = (f32[30]{0:T(128)}, /*index=1*/bf16[3,30,100]{2,1,0:T(8,128)(2,1)}) \
fusion(%weight), kind=kOutput, calls=%fused_sums, metadata={op_name=\
"block/einsum/Einsum;my_model/albert_encoder/StatefulPartitionedCall_1/block/einsum/\
Einsum" source_line=7}
  %kept = bf16[3,30,100]{2,1,0:T(8,128)(2,1)} get-tuple-element(%fusion.1), index=1, \
metadata={op_name="my_model/albert_encoder/StatefulPartitionedCall_1/block/Cast"}
  %sums = f32[30]{0:T(128)} get-tuple-element(%fusion.1), index=0
  %inner = f32[30,100]{1,0:T(8,128)S(1)} negate(%sums), metadata={op_name="Neg"}
  %state = (f32[30]{0:T(128)}) tuple(%sums)
  %while.1 = (f32[30]{0:T(128)}) while(%state), condition=%condition, body=%body
  %fusion.2 = f32[30,100]{1,0:T(8,128)} fusion(%kept), kind=kOutput, \
calls=%fused_square, metadata={op_name="my_model/PartitionedCall/gradients/block/\
projection_2/einsum/Einsum_grad/Einsum_1"}
  %fusion.3 = f32[30,100]{1,0:T(8,128)} fusion(%kept), kind=kOutput, \
calls=%fused_square, metadata={op_name="my_model/PartitionedCall_2/gradients/block/\
projection_2/einsum/Einsum_grad/Einsum_1"}
  %loss = f32[]{:T(256)} reduce(%fusion.2, %inner), metadata={op_name="lamb/norm_7/Sum"}
  ROOT %results = (f32[]{:T(256)}, f32[30,100]{1,0:T(8,128)}) tuple(%loss, %fusion.3)
}
"""
